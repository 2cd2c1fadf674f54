# Every command of this repository; `make help` lists them. What a target does
# is in scripts/, one short script a job.

.DEFAULT_GOAL := help
.NOTPARALLEL:

# Cargo.lock pins boring to the version that upstream's tests expect.
LOCKED := $(shell git ls-files Cargo.lock | sed 's/.*/--locked/')

##@ Use

help: ## List these commands
	@awk -f scripts/help.awk $(MAKEFILE_LIST)

setup: ## Install what a build needs (system packages by apt, where it may)
	@sh scripts/setup.sh

build: setup quiche ## Build the release binaries, in target/release
	cargo build --workspace --release $(LOCKED)

speedtest: build ## Slow start against Careful Resume, real processes; ARGS='--help' shows more
	target/release/speed-test --out results $(ARGS)

evaluation: build ## Simulate every scenario in virtual time, and report; docs/evaluation.md
	@sh scripts/evaluation.sh

##@ Change

quiche: ## Write the release and every patch to quiche/; FORCE=1 drops unexported edits
	@sh scripts/quiche.sh

patches: ## Export edited hooks to patches/; PATCH=0003, NEW=0007-subject, FILES='src/lib.rs'
	@sh scripts/patches.sh

series: ## Build the series, our files included, as a git history (to read or to bisect)
	@sh scripts/series.sh

bisect: setup ## Find the patch from which on RUN='…' fails, or prints a number ABOVE= or BELOW= one
	@sh scripts/bisect.sh

bisect-history: setup ## The same among this repository's commits, from GOOD=commit to BAD=HEAD
	@sh scripts/bisect-history.sh

rebase: ## Move the series to another release, UPSTREAM=x.y.z; ABORT=1 gives up at a conflict
	@sh scripts/rebase.sh

export: ## Write the series as mails for git am, LAYOUT=crate or repo, to OUT=folder
	@sh scripts/export.sh

range-diff: ## What changed in the series since BASE=origin/main, patch by patch
	@sh scripts/range-diff.sh

fmt: ## Format our own files
	@sh scripts/fmt.sh

snapshot: setup quiche ## Write the simulator's key figures anew, after a change that is meant
	UPDATE_SNAPSHOT=1 cargo test --workspace --test snapshot $(LOCKED)
	@git --no-pager diff --stat tools/sim/tests/snapshot.txt

clean: ## Delete build products and results, never sources
	rm -rf target results

##@ Check

test: setup quiche ## Run every test: upstream's on the fork, ours, end to end, the fork's scripts
	cargo test --workspace $(LOCKED)
	@sh scripts/test-fork.sh
	@sh scripts/test-series.sh
	@sh scripts/test-no-loss.sh
	@sh scripts/test-setup.sh
	@sh scripts/test-layers.sh
	@sh scripts/test-conformance.sh

test-interop: setup quiche ## Run other people's HTTP/3 clients against edge-server; CLIENT='quinn aioquic' runs only these
	@sh scripts/test-interop.sh $(LOCKED)

interop-paths: build ## First downloads of 10 BDP over long paths by other people's clients (10 minutes); CLIENT='quic-go' PATHS='50/600' BUFFER='0.5 1' choose; ARGS='--server old=FILE' compares
	@sh scripts/interop-paths.sh $(ARGS)

check: patches-check fmt-check layers-check docs-check conformance-check lint test test-interop steps-check ## Everything that CI runs

patches-check: quiche ## Does `make patches` give patches/ back, and does each keep the rules of docs/patches.md?
	@sh scripts/patches-check.sh

steps-check: setup quiche ## Do the fork, with and without qlog, and the applications compile after every patch?
	@sh scripts/check-each.sh --compile

check-each: setup quiche ## Run the fork's tests after every patch, with and without qlog
	@sh scripts/check-each.sh

fmt-check: quiche ## Is every file of ours formatted?
	@sh scripts/fmt.sh --check

layers-check: ## Do imports between folders point down only, without circles, and do first lines name their subject?
	@sh scripts/layers-check.sh
	@sh scripts/headlines-check.sh

docs-check: ## Do links and make targets in our pages exist?
	@sh scripts/docs-check.sh

conformance-check: quiche ## Do the functions and tests that quiche/CONFORMANCE.md names exist, and can the faults be planted?
	@sh scripts/conformance-check.sh
	@sh scripts/conformance-faults.sh --fits
	@sh scripts/sim-faults.sh --fits

conformance-faults: setup quiche ## Does the test of each row there fail with a planted fault? ROW=C12 does one
	@sh scripts/conformance-faults.sh

lint: setup quiche ## Run clippy on our own files, what is fuzzed too; a warning is an error
	@sh scripts/lint.sh $(LOCKED)

sim-faults: setup quiche ## Do the simulator's scenarios catch five planted faults? ROW=A2 does one
	@sh scripts/sim-faults.sh

mutants: setup quiche ## Does a test fail for each small change of the recovery's code? Installs cargo-mutants, takes hours; FILE=pacing.rs does one file
	@sh scripts/mutants.sh

fuzz: setup quiche ## Coverage-guided fuzzing of packets, requests, configuration, tokens, store records; TARGET=packets, TIME=60 seconds each
	@sh scripts/fuzz.sh

fuzz-sim: build ## Random scenarios break no invariant and complete; CASES=10000, at most TIME=1800 seconds
	target/release/sim fuzz --cases $(or $(CASES),10000) --time $(or $(TIME),1800)

check-long: build conformance-faults sim-faults mutants ## Planted faults and mutants; a minute of fuzzing each; debug as release; and on this machine the emulator's accuracy, how evenly a jump leaves, what the store costs, what a flood does, what a load leaves (hours)
	@sh scripts/sim-repeats.sh $(LOCKED)
	@sh scripts/fuzz.sh
	@sh scripts/check-long.sh $(LOCKED)
	@sh scripts/test-bisect.sh

bench-store: setup quiche ## What claims and records cost, by kind and size of the store (40 minutes); ARGS='--entries 1000,100000'
	cargo bench -p path-store --bench store $(LOCKED) -- $(ARGS)

bench-server: build ## What edge-server costs in CPU time beside other HTTP/3 servers (6 minutes, after the peers' builds, which take 10); ARGS='--size 0.1 --rounds 1' is a trial
	@sh scripts/bench-server.sh $(ARGS)

bench-flood: build ## What 50,000 forged Initials a second do to downloads (2 minutes); ARGS='--rate 10000 --seconds 5'
	cargo bench -p edge-server --bench initial_flood $(LOCKED) -- $(ARGS)

bench-load: build ## 2,000 clients at a time for two minutes over a path that loses packets, a reload and a restart amid it, and the memory of idle connections (4 minutes); ARGS='--connections 200 --seconds 30'
	cargo bench -p edge-server --bench load $(LOCKED) -- $(ARGS)

engine-cost: setup quiche ## Count the instructions that Careful Resume costs without a saved set (valgrind)
	@sh scripts/engine-cost.sh $(LOCKED)

.PHONY: bench-flood bench-load bench-server bench-store bisect bisect-history check-each check-long engine-cost evaluation export fuzz fuzz-sim help interop-paths setup build range-diff rebase speedtest quiche patches series steps-check fmt clean test test-interop check patches-check fmt-check docs-check layers-check conformance-check conformance-faults lint mutants sim-faults snapshot
