#!/usr/bin/env bash
# The demonstration of config/demo.yaml: two simulated engines, one ingress with its counts in
# memory, two tenants with a small load, live figures and the live page. Everything listens on
# loopback and ends with Ctrl-C.
set -euo pipefail
cd "$(dirname "$0")/.."

echo "Building (the first time takes some minutes) …"
cargo build --locked --package streamgate --package streamgate-loadtests --bins
target=$(cargo metadata --locked --no-deps --format-version 1 |
  sed -E 's/.*"target_directory":"([^"]*)".*/\1/')
exec "$target/debug/streamgate-loadtests" demo \
  --streamgate "$target/debug/streamgate" --config config/demo.yaml "$@"
