# Every command of this repository; `make help` lists them. What a target does
# is in scripts/, one short script a job.

.DEFAULT_GOAL := help
.NOTPARALLEL:

# Cargo.lock pins boring to the version that upstream's tests expect.
LOCKED := $(shell git ls-files Cargo.lock | sed 's/.*/--locked/')

##@ Use

help: ## List these commands
	@awk -f scripts/help.awk $(MAKEFILE_LIST)

setup: ## Install what a build needs (as root, system packages by apt)
	@sh scripts/setup.sh

build: setup quiche ## Build the release binaries, in target/release
	cargo build --workspace --release $(LOCKED)

deb: build ## Make Debian's package, and one of debug files, in target/packages; ARCH, PROGRAMS and others: scripts/stage.sh
	@sh scripts/deb.sh

dist: build ## Make a tarball of the programs and what belongs to them, with checksums, in target/packages
	@sh scripts/dist.sh

testbed: build ## Download over an emulated path between Docker containers, by docker/testbed/.env, with a report in results/; ENV_FILE names other parameters
	@sh scripts/testbed.sh

fleet-demo: build ## Run two servers with one store of path state in Docker, docker/fleet, and show restart and failover; KEEP=1 leaves them running
	@sh scripts/fleet-demo.sh

docker-image: ## Build the image of edge-server in Docker, or from built programs: PROGRAMS=target/release
	@sh scripts/docker-image.sh

speedtest: build ## Compare slow start with Careful Resume, real processes; ARGS='--help' shows more
	target/release/speed-test --out results $(ARGS)

evaluation: build ## Simulate every scenario in virtual time, and report; docs/evaluation.md
	@sh scripts/evaluation.sh

##@ Change

quiche: ## Write the release and every patch to quiche/, or those up to TOPIC=20-careful-resume; FORCE=1 drops unexported edits
	@sh scripts/quiche.sh

patches: ## Export edited hooks to patches/, each to the patch that owns its lines; PATCH=10-fixes/03, NEW=30-options/12-subject, FILES='src/lib.rs'
	@sh scripts/patches.sh

depends: ## Print the earlier patches that each patch needs to apply, for its Depends: (minutes); DIR=folder reads another series
	@sh scripts/depends.sh

series: ## Build the series, our files included, as a git history (to read or to bisect)
	@sh scripts/series.sh

bisect: setup ## Find the patch with which RUN='…' starts to fail, or prints a number ABOVE= or BELOW= one; GOOD=10-fixes/03 is known to be good
	@sh scripts/bisect.sh

bisect-history: setup ## The same for this repository's commits, from GOOD=commit to BAD=HEAD
	@sh scripts/bisect-history.sh

rebase: ## Move the series to another release, UPSTREAM=x.y.z; ABORT=1 gives up at a conflict
	@sh scripts/rebase.sh

export: ## Write the series as mails for git am, LAYOUT=crate or repo, to OUT=folder; TOPIC=20-careful-resume writes one topic
	@sh scripts/export.sh

range-diff: ## What changed in the series since BASE=origin/main, patch by patch
	@sh scripts/range-diff.sh

fmt: ## Format our own files
	@sh scripts/fmt.sh

snapshot: setup quiche ## Rewrite the simulator's key figures, after an intended change
	UPDATE_SNAPSHOT=1 cargo test --workspace --test snapshot $(LOCKED)
	@git --no-pager diff --stat tools/sim/tests/snapshot.txt

options: setup quiche ## Write docs/edge-server/options.md, and the worst case of memory, from the command line's definitions
	UPDATE_OPTIONS=1 cargo test --workspace --bin edge-server $(LOCKED) -- options_page worst_case
	@git --no-pager diff --stat docs/edge-server/options.md docs/edge-server/security-and-limits.md

clean: ## Delete build products and results, never sources
	rm -rf target results

##@ Check

test: setup quiche ## Run every test: upstream's on the fork, ours, end to end, the fork's scripts; FILTER=goaway runs only Rust tests with that in their names
	cargo test --workspace $(LOCKED) $(if $(FILTER),-- $(FILTER))
ifndef FILTER
	@sh scripts/test-fork.sh
	@sh scripts/test-series.sh
	@sh scripts/test-no-loss.sh
	@sh scripts/test-setup.sh
	@sh scripts/test-layers.sh
	@sh scripts/test-names.sh
	@sh scripts/test-conformance.sh
	@sh scripts/test-page.sh
	@sh scripts/same-packets.sh --test
	@sh scripts/test-path-mtu.sh
	@sh scripts/test-metrics.sh $(LOCKED)
endif

test-path-mtu: setup quiche ## Download over paths whose MTU is small, or changes, in network namespaces; ARGS='--pmtud "on off"' compares
	cargo test --workspace --no-run --quiet $(LOCKED)
	@sh scripts/test-path-mtu.sh $(ARGS)

test-interop: setup quiche ## Run other clients over HTTP/3, HTTP/2 and HTTP/1.1 against edge-server; CLIENT='quinn aioquic' runs only these
	@sh scripts/test-interop.sh $(LOCKED)

test-acme: setup quiche ## Get and renew certificates by ACME from Pebble, a test authority that is built with Go (2 minutes)
	@sh scripts/test-acme.sh $(LOCKED)

test-nginx: setup quiche ## Run nginx over TCP beside edge-server over UDP, as docs/edge-server/tcp.md has it
	@sh scripts/test-nginx.sh $(LOCKED)

test-origin: setup quiche ## Run edge-server in front of nginx, Node and Python, over each version of HTTP
	@sh scripts/test-origin.sh $(LOCKED)

test-cache: setup quiche ## Run the public suite cache-tests against the cache of edge-server (Node; from GitHub and npm, or CACHE_TESTS=DIR)
	@sh scripts/test-cache.sh $(LOCKED)

test-cache-load: setup quiche ## Load the cache with 2,000 clients for twice five minutes, while origin and server are killed, reloaded and taken over; SEED=7 CLIENTS=200 OBJECTS=1000 TIME=60
	@$(foreach name,SEED CLIENTS OBJECTS TIME,$(if $($(name)),$(name)=$($(name)) ))sh scripts/test-cache-load.sh $(LOCKED)

test-units: ## Does systemd take the unit of packages/, and is its exposure at most 1.6? (seconds)
	@sh scripts/test-units.sh

test-deb: ## Install, upgrade under load, remove and purge Debian's package in a fresh Debian that systemd-nspawn boots (as root, minutes); PROGRAMS=target/debug packs other programs
	@sh scripts/test-deb.sh

test-arm64: setup quiche ## Build edge-server for arm64 (rustup, Debian's cross compiler), and run it under qemu (10 minutes)
	@sh scripts/test-arm64.sh $(LOCKED)

test-docker: ## Build the image from built programs (PROGRAMS=target/release), and run it in a Docker engine that the script starts if none runs (as root)
	@sh scripts/test-docker.sh

test-fleet: ## Run fleet-demo and the testbed from built programs (PROGRAMS=target/release), in a Docker engine that the script starts if none runs (as root, minutes)
	@sh scripts/test-fleet.sh

test-containers: setup quiche ## Run test-docker and test-fleet in one Docker engine, with the programs of make test (as root, 7 minutes)
	cargo test --workspace --no-run --quiet $(LOCKED)
	@sh scripts/test-containers.sh

h2spec: setup quiche ## Run h2spec, the conformance test of HTTP/2, against edge-server
	@sh scripts/h2spec.sh $(LOCKED)

test-metrics: setup quiche ## Check metrics and alert rules with promtool (unpacked from Debian's package); ARGS=--live runs the rules and the dashboard in Prometheus
	@sh scripts/test-metrics.sh $(ARGS) $(LOCKED)

interop-curl: setup quiche ## Build curl with the fork's libquiche, and run it against edge-server (minutes)
	@sh scripts/interop-curl.sh $(LOCKED)

tokio-quiche-check: setup quiche ## Do the released tokio-quiche, and the server on it, compile with the fork?
	@sh scripts/test-tokio-quiche.sh --check $(LOCKED)

test-tokio-quiche: setup quiche ## Build the released tokio-quiche with the fork (2 minutes), and test the server on it over an emulated path
	@sh scripts/test-tokio-quiche.sh $(LOCKED)

interop-paths: build ## Run first downloads of 10 BDP over long paths by other HTTP/3 clients (10 minutes); CLIENT='quic-go' PATHS='50/600' BUFFER='0.5 1' choose; ARGS='--server old=FILE' compares
	@sh scripts/interop-paths.sh $(ARGS)

interop-page: setup quiche ## Try the speed-test page in headless Chromium and Firefox over an emulated GEO path (5 minutes), with pictures in results/; BROWSER=firefox runs one
	@sh scripts/interop-page.sh $(LOCKED)

interop-alt-svc: setup quiche ## Do headless Chromium and Firefox go from HTTP/2 to HTTP/3, and jump, over an emulated GEO path (2 minutes)? Pictures in results/; BROWSER=firefox runs one
	@sh scripts/interop-alt-svc.sh $(LOCKED)

check: patches-check fmt-check layers-check names-check docs-check conformance-check lint test test-interop h2spec test-nginx test-origin test-units test-containers tokio-quiche-check steps-check ## Everything that CI runs

same-packets: setup quiche ## Does the fork send the release's datagrams, except as docs/unchanged.md says? TIP=all tries every topic, COUNT=1500 random connections too; PATCHES=1 names the patches that change a SCENARIO
	@sh scripts/same-packets.sh

patches-check: quiche ## Does `make patches` give patches/ back, and does each keep the rules of docs/patches.md?
	@sh scripts/patches-check.sh

steps-check: setup ## Does the fork compile after every patch, do its form without qlog and the applications (not between two fixes), and do the tests pass after every topic?
	@sh scripts/check-each.sh --compile

check-each: setup ## Run the fork's tests after every patch, with and without qlog; TOPIC=20-careful-resume runs one topic
	@sh scripts/check-each.sh

check-fixes: setup ## Does each fix pass its tests alone on the release, and do they fail without it? PATCH=10-fixes/03 checks one
	@sh scripts/check-fixes.sh

workspace-check: setup quiche ## Does the exported series leave upstream's workspace compiling, tokio-quiche among it? From its packages (minutes)
	@sh scripts/workspace-check.sh

fmt-check: quiche ## Is every file of ours formatted?
	@sh scripts/fmt.sh --check

layers-check: ## Do imports between folders point down only, without circles, and do first lines name their subject?
	@sh scripts/layers-check.sh
	@sh scripts/headlines-check.sh

names-check: ## Does each type name stand for one thing in its package, and are the old names gone?
	@sh scripts/names-check.sh

docs-check: ## Do the links, headings and make targets in our pages exist?
	@sh scripts/docs-check.sh

conformance-check: quiche ## Do the functions and tests that quiche/CONFORMANCE.md names exist, and can the faults be planted?
	@sh scripts/conformance-check.sh
	@sh scripts/conformance-faults.sh --fits
	@sh scripts/sim-faults.sh --fits

conformance-faults: setup quiche ## Does the test of each row there fail with a planted fault? ROW=C12 does one
	@sh scripts/conformance-faults.sh

lint: setup quiche ## Run clippy on our own files, including fuzz targets; a warning is an error
	@sh scripts/lint.sh $(LOCKED)

sim-faults: setup quiche ## Do the simulator's scenarios catch five planted faults? ROW=A2 does one
	@sh scripts/sim-faults.sh

mutants: setup quiche ## Does a test fail for each small change of the recovery's code? Installs cargo-mutants, takes hours; FILE=pacing.rs does one file
	@sh scripts/mutants.sh

fuzz: setup quiche ## Coverage-guided fuzzing of packets, requests, configuration, tokens, store records; TARGET=packets, TIME=60 seconds each
	@sh scripts/fuzz.sh

fuzz-sim: build ## Run random scenarios, which must complete and violate no invariant; CASES=10000, at most TIME=1800 seconds
	target/release/sim fuzz --cases $(or $(CASES),10000) --time $(or $(TIME),1800)

check-long: build test-tokio-quiche conformance-faults sim-faults mutants ## Plant faults and mutants, check each fix alone, fuzz each target for a minute, compare debug with release builds and the fork's datagrams with the release's, and run the benchmarks of emulator, pacing, store, flood, load, gain and validity (hours)
	@sh scripts/sim-repeats.sh $(LOCKED)
	@sh scripts/fuzz.sh
	@TIP=all COUNT=1500 sh scripts/same-packets.sh
	@PATCHES=1 COUNT=300 sh scripts/same-packets.sh
	@sh scripts/check-long.sh $(LOCKED)
	@sh scripts/test-bisect.sh
	@sh scripts/check-fixes.sh

bench-store: setup quiche ## Measure what claims and records cost, by kind and size of the store (40 minutes); ARGS='--entries 1000,100000'
	cargo bench -p path-store --bench store $(LOCKED) -- $(ARGS)

bench-server: build ## Compare edge-server's CPU time with other HTTP/3 servers (7 minutes, after 10 minutes of builds); ARGS='--size 0.1 --rounds 1' is a trial
	@sh scripts/bench-server.sh $(ARGS)

bench-files: build ## Compare what files cost with the same bytes from memory, and with nginx, h2o and Caddy, over HTTP/3 and HTTP/2 (15 minutes); ARGS='--size 0.1 --rounds 1 --files 10000' is a trial
	@sh scripts/bench-files.sh $(ARGS)

bench-cache: build ## Compare what cached responses cost with files, nginx and Varnish, over each version of HTTP, and their latency (15 minutes); ARGS='--size 0.1 --rounds 1' is a trial
	@sh scripts/bench-cache.sh $(ARGS)

bench-flood: build ## Measure what 50,000 forged Initials a second do to downloads (2 minutes); ARGS='--rate 10000 --seconds 5'
	cargo bench -p edge-server --bench initial_flood $(LOCKED) -- $(ARGS)

bench-handshakes: build ## Measure what 2,000 TLS handshakes over TCP a second do to downloads over HTTP/3 (2 minutes); ARGS='--rate 500 --rounds 1'
	cargo bench -p edge-server --bench handshake_flood $(LOCKED) -- $(ARGS)

bench-origin: build ## Measure what 500 requests that wait for a stalled origin do to downloads over HTTP/3 (2 minutes); ARGS='--requests 100 --rounds 1'
	cargo bench -p edge-server --bench stalled_origin $(LOCKED) -- $(ARGS)

bench-proxied-jump: build ## Do second downloads of 10 MB from an origin, uncached and cached, jump over an emulated GEO path as a file does? (3 minutes); ARGS='--rounds 1'
	cargo bench -p edge-server --bench proxied_jump $(LOCKED) -- $(ARGS)

bench-load: build ## Serve 2,000 concurrent clients for two minutes over a path that loses packets, with a reload and a restart; measure the memory of idle connections (4 minutes); ARGS='--connections 200 --seconds 30'
	cargo bench -p edge-server --bench load $(LOCKED) -- $(ARGS)

bench-tokio-quiche: build ## Compare second downloads from the server on tokio-quiche with edge-server's, over an emulated GEO path (2 minutes, after 5 minutes of builds)
	@sh scripts/test-tokio-quiche.sh --bench $(LOCKED)

gain-check: build ## Does the access log of 1,000 emulated clients, half of them a control group, tell the gain that speed-test measures? (20 minutes); ARGS='--clients 100 --lanes 1'
	cargo bench -p speed-test --bench gain $(LOCKED) -- $(ARGS)

validity-check: build ## Do real processes take as long, and lose as much, as the simulator says? Eleven paths (3 minutes, real-time scheduling where permitted); ARGS='--only LEO --runs 3'
	cargo bench -p speed-test --bench validity --no-run $(LOCKED)
	@first=; if chrt -r 1 true 2>/dev/null; then first='chrt -r 1'; fi; \
	    $$first cargo bench -q -p speed-test --bench validity $(LOCKED) -- $(ARGS)

engine-cost: setup quiche ## Count the instructions that Careful Resume and ECN cost without saved parameters (valgrind)
	@sh scripts/engine-cost.sh $(LOCKED)

patch-cost: setup ## Count the instructions of a SCENARIO of make same-packets before PATCH=40-performance/05 and with it (valgrind, minutes)
	@sh scripts/patch-cost.sh

.PHONY: $(shell sed -n 's/^\([a-z][a-z0-9-]*\):.*/\1/p' $(MAKEFILE_LIST))
