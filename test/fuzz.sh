#!/usr/bin/env bash
# fuzz.sh TIME: every fuzz target of the module, one after the other.
set -euo pipefail
cd "$(dirname "$0")/.."
failed=0
for pkg in $(go list ./...); do
	for target in $(go test -list '^Fuzz' "$pkg" | grep '^Fuzz' || true); do
		echo "--- $pkg $target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$1" -fuzzminimizetime 1s "$pkg" || failed=$((failed + 1))
	done
done
echo "$failed fuzz targets failed"
[ "$failed" = 0 ]
