#!/usr/bin/env bash
# Runs the benchmarks of docs/performance.md in release builds: about six minutes once built.
#
#   scripts/bench.sh                 both
#   scripts/bench.sh micro [ARGS]    steps of the hot path, each alone (ARGS: divan's, a name filters)
#   scripts/bench.sh overhead [ARGS] beside a bare Pingora proxy (ARGS: streamgate-overhead run --help)
set -euo pipefail
cd "$(dirname "$0")/.."

CARGO="${CARGO:-cargo}"
release="${CARGO_TARGET_DIR:-target}/release"

micro() {
    "$CARGO" bench --locked --package streamgate-micro --bench hot_path -- "$@"
}

overhead() {
    # Two builds: in one, the features that the benchmark asks of shared crates would get into the
    # product's binary.
    "$CARGO" build --locked --release --package streamgate --bin streamgate
    "$CARGO" build --locked --release --package streamgate-overhead
    # 1,000 streams are two descriptors each in the proxy, and two in the driver.
    ulimit -n 8192 2>/dev/null || true
    timeout 900 "$release/streamgate-overhead" run --gate "$release/streamgate" "$@"
}

case "${1:-all}" in
    micro) micro "${@:2}" ;;
    overhead) overhead "${@:2}" ;;
    all)
        micro
        overhead
        ;;
    *)
        sed -n '2,7p' "$0" >&2
        exit 64
        ;;
esac
