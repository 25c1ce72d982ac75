#!/usr/bin/env bash
# Runs load tests and writes their results to loadtests/results/.
#
#   scripts/loadtest.sh              every scenario, faster than real time (under 15 minutes)
#   scripts/loadtest.sh FILE …       these
#
# SCALE=1 runs in real time. PRIORITY='chrt -r 10' keeps the figures right on a machine that is
# busy with other things. Ends with 1 if a scenario could not be run, was not valid (the generator
# itself was late), or has a figure outside of what it expects that the reference model does not
# explain.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

cargo build --release --locked --package streamgate --package streamgate-loadtests --bins || exit 1
target=$(cargo metadata --locked --no-deps --format-version 1 |
  sed -E 's/.*"target_directory":"([^"]*)".*/\1/')
export STREAMGATE_BIN=${STREAMGATE_BIN:-$target/release/streamgate}
read -ra priority <<<"${PRIORITY:-}"

files=("$@")
((${#files[@]})) || files=(loadtests/scenarios/*.yaml loadtests/scenarios/streamgate/*.yaml)
failed=()
for file in "${files[@]}"; do
  name=$(basename "$file" .yaml)
  options=(--strict --quiet)
  [[ -n ${SCALE:-} ]] && options+=(--scale "$SCALE")
  # Its twelve arrival orders are one run with twelve seeds.
  [[ $name == expected-ttft ]] && options+=(--repeat 12)
  echo "== $name"
  code=3
  # A run that the machine made invalid is repeated, once.
  for _ in 1 2; do
    ((code == 3)) || break
    "${priority[@]}" "$target/release/streamgate-loadtests" run "$file" "${options[@]}"
    code=$?
  done
  ((code == 130)) && exit 130
  ((code == 0)) || failed+=("$name($code)")
done
# The page over all results, written where the results are.
"$target/release/streamgate-loadtests" overview loadtests/results
((${#failed[@]})) || { echo "All valid; no figure is outside unexplained."; exit 0; }
echo "Not as expected: ${failed[*]}"
exit 1
