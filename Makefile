# Everyday commands. `make run` and `make test` do their own set-up on a fresh Debian machine with a Rust toolchain.
SHELL := /bin/bash
CARGO ?= cargo

.PHONY: help setup run test test-arm64 test-vm test-crash test-nats test-storm simulate bench instructions deb rpm reproducible repo lint fmt fuzz properties clean
.DEFAULT_GOAL := help

help: ## show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

setup: ## install what is missing (as root; otherwise says the command)
	@scripts/setup.sh

run: setup ## build fnd and run it until Ctrl-C on functions/, at first a copy of the examples (DIR=... to choose)
	@DIR="$(DIR)" scripts/run.sh

test: setup ## run every test this machine can run, and say which it cannot
	@scripts/test.sh

test-arm64: ## test the package that `make deb ARCH=arm64` built, by emulation of its programs
	@scripts/test-arm64.sh

test-vm: ## test the package on a Debian with systemd in a virtual machine (emulated; a quarter of an hour)
	@scripts/setup.sh --ci
	@scripts/test-vm.sh

test-crash: ## kill fnd, its spawner and both 2000 times under load (KILLS=N, SEED=N to choose) and compare the history with what callers and functions noted
	@scripts/setup.sh --crash
	@$(CARGO) build --locked -p fnd -p fnd-helper -p fnd-spawner -p fnd-web -p fndctl
	@env FND_KILLS=$${KILLS:-2000} $${SEED:+FND_SEED=$$SEED} FND_REQUIRE=root,cgroup,strace \
		$(CARGO) test --locked -p fnd-tests --test it -- many_kills_at_named --nocapture

test-storm: ## everything at random under load: edits, kills, shortages, clock steps (SECONDS=N, SEED=N, STORM=edits,kills to choose)
	@scripts/setup.sh --crash
	@$(CARGO) build --locked -p fnd -p fnd-helper -p fnd-spawner -p fnd-web -p fndctl
	@env FND_STORM_SECONDS=$(or $(SECONDS),300) FND_STORM_SEED=$${SEED:-random} STORM=$${STORM:-all} FND_REQUIRE=root,cgroup \
		$(CARGO) test --locked -p fnd-tests --test it -- in_a_storm --nocapture

test-nats: ## kill parts of three nodes on one stream 200 times under load, with partitions (KILLS=N, SEED=N to choose), and compare what the functions noted; then the same told step by step with 3000 messages (MESSAGES=N)
	@scripts/setup.sh --ci
	@$(CARGO) build --locked -p fnd -p fnd-helper -p fnd-spawner -p fnd-web -p fndctl
	@env FND_NATS_KILLS=$${KILLS:-200} FND_NATS_MESSAGES=$${MESSAGES:-3000} $${SEED:+FND_NATS_SEED=$$SEED} FND_REQUIRE=root,cgroup,nats \
		$(CARGO) test --locked -p fnd-tests --test it -- many_kills_and_partitions whatever_is_killed --nocapture --test-threads=1

simulate: ## run the daemon in 2000 simulated worlds in which everything goes wrong (SEEDS=N, SEED=N to see one happen, MUTANTS=1 to test the simulation)
	@scripts/simulate.sh

bench: setup ## measure what fnd costs beside bare processes and others that are installed (PARTS="flood --quick" to choose, COMPARE=COMMIT for what changed since then)
	@scripts/bench.sh $(PARTS)

instructions: setup ## count what a warm call costs fnd: instructions by function, system calls (THREAD=ledger for another thread, CALLS=N)
	@CALLS="$(CALLS)" THREAD="$(THREAD)" scripts/instructions.sh

deb: setup ## build the Debian package and say where it is (ARCH=arm64 for another architecture)
	@scripts/deb.sh $(if $(ARCH),--arch $(ARCH))

rpm: deb ## turn the Debian package into an rpm and say where it is (ARCH=arm64 for another architecture)
	@ARCH="$(ARCH)" scripts/rpm.sh

reproducible: setup ## build the package twice in different places and compare the bytes (FND_PROFILE=release for the one that people get)
	@scripts/test-reproducible.sh

repo: ## make a signed repository for apt of the packages in target/debian (FND_REPO_KEY=FINGERPRINT, FND_REPO_URL=... for machines)
	@scripts/repo.sh

lint: ## formatting, clippy, and (where installed) shellcheck
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	@if command -v shellcheck >/dev/null; then scripts/lint-shell.sh; else echo "lint: no shellcheck, scripts not checked"; fi

fmt: ## format the code
	$(CARGO) fmt --all

fuzz: ## fuzz everything that reads foreign bytes for a minute each (FUZZ_SECONDS=N to choose)
	@scripts/fuzz.sh

properties: ## run the property tests with 20 times the cases (PROPTEST_CASES=N to choose)
	PROPTEST_CASES=$${PROPTEST_CASES:-5000} $(CARGO) test -p fnd-manifest -p fnd-core --release --locked

clean: ## remove everything built or installed below target/
	$(CARGO) clean
