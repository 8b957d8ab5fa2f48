#!/usr/bin/env bash
# run.sh SUITE...: make test. npm installs while the suites that need no npm run.
set -euo pipefail
cd "$(dirname "$0")/.."

log=$(mktemp)
installer=
cleanup() {
	[ -z "$installer" ] || kill "$installer" 2> /dev/null || true
	rm -f "$log" "$log.tally"
}
trap cleanup EXIT

test/node/install.sh test/node > "$log" 2>&1 &
installer=$!
make --no-print-directory build

status=0
go run ./test/suites -more -tally "$log.tally" 'go: -race -timeout 6m ./...' || status=1

if ! wait "$installer"; then
	installer=
	cat "$log" >&2
	go run ./test/suites -tally "$log.tally" -fail "npm could not install what the suites $* need: they did not run" || exit 1
fi
installer=
cat "$log"

suites=()
for s in "$@"; do suites+=("$s: -tags npm -count=1 ./test/$s"); done
go run ./test/suites -tally "$log.tally" "${suites[@]}" || status=1
exit $status
