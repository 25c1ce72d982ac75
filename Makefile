# What there is to do here; `make help` lists it.

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

CARGO ?= cargo

.PHONY: help demo test test-exhaustive test-rollouts test-page test-vllm lint bench model loadtest \
	loadtest-all loadtest-clients loadtest-vllm quota-figures compare-litellm

help: ## List these recipes (default)
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Start two simulated engines, the ingress, two tenants and the live page; Ctrl-C ends it
	@scripts/prerequisites.sh demo
	@scripts/demo.sh

test: ## Install what the tests need if it is missing, then run every test
	@scripts/prerequisites.sh test
	@scripts/sdk-venv.sh >/dev/null || echo "The tests of real client libraries will fail without it."
	$(CARGO) test --workspace --exclude streamgate-micro --exclude streamgate-overhead --locked --no-fail-fast

test-exhaustive: ## Cut every captured stream at every byte through the ingress (release build, long)
	STREAMGATE_EXHAUSTIVE=1 $(CARGO) test --release --locked --package streamgate --test it -- transcripts

test-rollouts: ## Roll two engines 1,000 times in a row under streams of random lengths (20 to 30 min)
	@scripts/prerequisites.sh test
	STREAMGATE_ROLLOUTS=$${STREAMGATE_ROLLOUTS:-1000} \
		$(CARGO) test --locked --package streamgate --test rollout -- --nocapture many::

test-page: ## Look at the live page in a real browser (installs chromium)
	@tests/page/run.sh

test-vllm: ## Drain and replace real vLLM servers under streams (installs 1.2 GB once, then 10 min)
	@tests/vllm/run.sh

lint: ## Check format, lints, documentation, dependencies and scripts
	@scripts/prerequisites.sh build
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- --deny warnings
	RUSTDOCFLAGS="--deny warnings" $(CARGO) doc --workspace --no-deps --locked --quiet
	@scripts/check-dependencies.sh
	@for script in scripts/*.sh loadtests/*/*.sh tests/*/*.sh .ci/run; do bash -n "$$script"; done
	@if command -v shellcheck >/dev/null; then shellcheck scripts/*.sh loadtests/*/*.sh tests/*/*.sh .ci/run; fi

quota-figures: ## Measure round trips a request and a frozen Redis, three replicas (release build)
	@scripts/quota-figures.sh

compare-litellm: ## Streamgate and LiteLLM under the same scripted faults (installs LiteLLM, 15 min)
	@scripts/compare-litellm.sh

loadtest: ## Run one load test: make loadtest SCENARIO=loadtests/scenarios/w1.yaml
	@scripts/loadtest.sh $(SCENARIO)

loadtest-all: ## Reproduce every published experiment, and show what the ingress makes of it (15 min)
	@scripts/loadtest.sh

loadtest-clients: ## The same load by our client and by aiperf (installs 1.2 GB once, then 5 min)
	@loadtests/clients/run.sh

loadtest-vllm: ## A small load on a real vLLM behind the ingress (installs 1.2 GB once, then 3 min)
	@loadtests/vllm/run.sh

bench: ## Measure the hot path, and the whole beside a bare Pingora proxy (release build)
	@scripts/prerequisites.sh build
	@scripts/bench.sh

model: ## Explore the quota protocol further than the tests do (hours; NAMES='flush late-' for some)
	$(CARGO) run --release --locked -p streamgate-quota-model -- --record quota-model/RESULTS.md $(NAMES)
