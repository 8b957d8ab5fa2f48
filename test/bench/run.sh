#!/usr/bin/env bash
# Measures the sidecar, a plain reverse proxy and the bare upstream side by side
# on loopback, taking turns in one run, and prints a table of ratios. Needs Linux
# (/proc) and about three minutes; ROUNDS and SLICE make it longer or shorter.
set -euo pipefail
cd "$(dirname "$0")"
root=$(cd ../.. && pwd)
out=$PWD/out
rounds=${ROUNDS:-5} slice=${SLICE:-600ms} parallel=${PARALLEL:-true} base=${PORT:-19400}
rm -rf "$out"
mkdir -p "$out/state"
for c in upstream floor loadgen report; do go build -o "$out/$c" "./$c"; done

pids=()
trap 'for p in "${pids[@]}"; do kill "$p" 2> /dev/null || true; done; wait' EXIT

# up PORT COMMAND...: starts a command, waits for its port, sets $pid.
up() {
	local port=$1
	shift
	"$@" > "$out/$(basename "$1")-$port.log" 2>&1 &
	pid=$!
	pids+=("$pid")
	for _ in $(seq 200); do
		(exec 3<> "/dev/tcp/127.0.0.1/$port") 2> /dev/null && return 0
		kill -0 "$pid" || break
		sleep 0.05
	done
	tail "$out/$(basename "$1")-$port.log" >&2
	return 1
}

up "$base" "$out/upstream" -listen "127.0.0.1:$base"
up $((base + 1)) "$out/floor" -listen "127.0.0.1:$((base + 1))" -to "http://127.0.0.1:$base"
floor=$pid
token=$(head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n')
(umask 077 && printf '%s\n' "$token" > "$out/token")
cat > "$out/sidecar.yaml" <<YAML
naming: "u__{tool}"
profiles: {default: {utility_tools: false, servers: [u]}}
mcp_servers:
  u: {url: "http://127.0.0.1:$base/t/20", supports_parallel_tool_calls: $parallel}
YAML
cat > "$out/others.yaml" <<YAML
naming: "u__{tool}"
profiles: {default: {utility_tools: false}}
mcp_servers:
  big: {url: "http://127.0.0.1:$base/t/3300", supports_parallel_tool_calls: $parallel}
YAML
cat > "$out/stdio.yaml" <<YAML
naming: "u__{tool}"
profiles: {default: {utility_tools: false}}
mcp_servers:
  child: {command: "$out/upstream", args: [-stdio, -tools, "20"], supports_parallel_tool_calls: $parallel}
YAML
bin=${MCP_SIDECAR_BIN:-$root/bin/mcp-sidecar}
# sidecar PORT FILE: one sidecar of its own per configuration.
sidecar() {
	mkdir -p "$out/state/$1"
	up "$1" "$bin" serve --config "$2" --listen "127.0.0.1:$1" --ops-listen "127.0.0.1:$(($1 + 50))" \
		--token-file "$out/token" --state-dir "$out/state/$1"
}
sidecar $((base + 2)) "$out/sidecar.yaml"
ours=$pid
sidecar $((base + 3)) "$out/others.yaml"
big=$pid
sidecar $((base + 4)) "$out/stdio.yaml"
child=$pid
sleep 1

auth="hdr=Authorization=Bearer $token"
direct=http://127.0.0.1:$base
hop=http://127.0.0.1:$((base + 1))
"$out/loadgen" -rounds "$rounds" -slice "$slice" -json "$out/lines.jsonl" \
	-w echo1k:c=1,echo1k:c=16,echo100k:c=8,echo1024k:c=4,list:c=1 \
	-t "direct=$direct/t/20" \
	-t "floor=$hop/t/20,pid=$floor" \
	-t "sidecar 2025-11-25=http://127.0.0.1:$((base + 2))/mcp,prefix=u__,pid=$ours,$auth" \
	-t "sidecar 2026-07-28=http://127.0.0.1:$((base + 2))/mcp,prefix=u__,pid=$ours,era=2026,$auth" \
	-t "sidecar over stdio=http://127.0.0.1:$((base + 4))/mcp,prefix=u__,pid=$child,$auth"
"$out/loadgen" -rounds "$rounds" -slice "$slice" -json "$out/big.jsonl" -w list:c=1 \
	-t "direct=$direct/t/3300" \
	-t "floor=$hop/t/3300,pid=$floor" \
	-t "sidecar 2025-11-25=http://127.0.0.1:$((base + 3))/mcp,prefix=u__,pid=$big,$auth" \
	-t "sidecar 2026-07-28=http://127.0.0.1:$((base + 3))/mcp,prefix=u__,pid=$big,era=2026,$auth"
echo
"$out/loadgen" -sessions 100 -hold -t "sidecar=http://127.0.0.1:$((base + 2))/mcp,prefix=u__,pid=$ours,$auth"

echo
echo "$(uname -sm), $(nproc) CPUs, $(go env GOVERSION), supports_parallel_tool_calls: $parallel, token on, cleaning on"
echo "$rounds rounds of $slice; binary $(($(stat -c %s "$bin") / 1024 / 1024)) MiB"
echo
"$out/report" "$out/lines.jsonl"
echo
echo "3,300 tools:"
echo
"$out/report" "$out/big.jsonl"
