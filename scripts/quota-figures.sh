#!/usr/bin/env bash
# Measures what docs/quota.md states of one cap over three replicas: round trips a request at 2,000
# requests a second, and what a frozen Redis adds. Release build; let nothing else run beside it.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/prerequisites.sh test
exec cargo test --release --locked --package streamgate --test fleet -- \
  --ignored --nocapture --test-threads 1 figures
