#!/bin/sh
# Runs every scenario and writes its results; ends with 1 if one could not be run, was not valid,
# or has a figure outside of what it expects. PRIORITY and SCALE as in loadtests.mk.
set -u
cd "$(dirname "$0")/.." || exit 1
program=${LOADTESTS:-target/release/streamgate-loadtests}
failed=""
for file in loadtests/scenarios/*.yaml loadtests/scenarios/streamgate/*.yaml; do
  name=$(basename "$file" .yaml)
  # The twelve arrival orders of expected-ttft are one run with twelve seeds.
  repeat=""
  [ "$name" = expected-ttft ] && repeat="--repeat 12"
  echo "== $name"
  # shellcheck disable=SC2086 # the options are words on purpose
  ${PRIORITY:-} "$program" run "$file" --strict --quiet ${SCALE:+--scale "$SCALE"} $repeat
  code=$?
  [ "$code" = 130 ] && exit 130
  [ "$code" = 0 ] || failed="$failed $name($code)"
done
[ -z "$failed" ] && { echo "all scenarios as expected"; exit 0; }
echo "not as expected:$failed"
exit 1
