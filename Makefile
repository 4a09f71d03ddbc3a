# Everyday commands. `make run` and `make test` do their own set-up on a fresh Debian machine with a Rust toolchain.
SHELL := /bin/bash
CARGO ?= cargo

.PHONY: help setup run test bench lint fmt fuzz clean
.DEFAULT_GOAL := help

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

setup: ## install what is missing (as root; otherwise says the command)
	@scripts/setup.sh

run: setup ## build fnd and run it on examples/functions until Ctrl-C
	@scripts/run.sh

test: setup ## run every test this machine can run, and say which it cannot
	@scripts/test.sh

bench: setup ## measure one invocation beside bare bash, idle memory, and 10,000 files
	@$(CARGO) build --release --locked -p fnd -p fnd-spawner -p fndctl
	@$(CARGO) run --release --locked -p fnd-tests --bin bench

lint: ## formatting, clippy, and (where installed) shellcheck
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	@if command -v shellcheck >/dev/null; then scripts/lint-shell.sh; else echo "lint: no shellcheck, scripts not checked"; fi

fmt: ## format the code
	$(CARGO) fmt --all

fuzz: ## run the property tests with 20 times the cases (PROPTEST_CASES=N to choose)
	PROPTEST_CASES=$${PROPTEST_CASES:-5000} $(CARGO) test -p fnd-core --release --locked

clean: ## remove everything built or installed below target/
	$(CARGO) clean
