# Load tests. `include loadtests/loadtests.mk` from the Makefile; needs `cargo` on the path.
#
#   make loadtest-all                 every published experiment and Streamgate's own, faster than
#                                     real time (under 15 minutes), results in loadtests/results/
#   make loadtest-all SCALE=1         the same in real time
#   make loadtest SCENARIO=loadtests/scenarios/w1.yaml
#   make loadtest-all PRIORITY='chrt -r 10'   on a machine that is busy with other things

LOADTESTS := target/release/streamgate-loadtests
PRIORITY ?=
SCALE ?=
SCENARIO ?= loadtests/scenarios/w1.yaml

.PHONY: loadtest loadtest-all loadtest-build demo

loadtest-build:
	cargo build --release -p streamgate -p streamgate-loadtests

loadtest: loadtest-build
	$(PRIORITY) $(LOADTESTS) run $(SCENARIO) $(if $(SCALE),--scale $(SCALE))

loadtest-all: loadtest-build
	PRIORITY="$(PRIORITY)" SCALE="$(SCALE)" loadtests/all.sh

demo: loadtest-build
	$(LOADTESTS) demo --streamgate target/release/streamgate
