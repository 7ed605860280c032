# `make help` lists the targets; .github/CONTRIBUTING.md describes them.
CARGO ?= cargo
.DEFAULT_GOAL := help
SHELL := bash
DEMO := tests/demo/demo.sh
# The charts for demo, bench, test-charts and image-root: a checkout of OpenStack-Helm, or a folder of packaged charts.
# Without it, the demo and the benchmarks use the stand-in charts of the tests.
CHARTS ?=
export CHARTS
# The number of nodes of `make real`, from 1 to 3.
NODES ?= 1
# The file with the cloud of `make real`. Without it, `make real` creates the cloud of deploy/samples/real.yaml, or that
# of real-two-nodes.yaml on several nodes.
SAMPLE ?=
# The program that builds the documentation. `make docs` installs it into target/tools if it is missing.
MDBOOK := $(or $(wildcard target/tools/bin/mdbook),mdbook)
MDBOOK_VERSION := 0.5.4

# There are more threads than processors, because integration tests mostly wait for their control planes.
TEST_THREADS ?= $(shell echo $$(( 3 * $$(nproc) )))

.PHONY: help build dist check test test-charts test-upgrade faults sweep soak fuzz lint demo demo-env demo-down real real-check test-real real-env real-down bench bench-scale \
	bench-plan times golden options docs image-root

help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST)

## make demo        run a cloud on a local control plane; CHARTS=DIR for real charts instead of stand-ins
demo:
	@$(DEMO) up

## make demo-env    print the environment of the demo: eval "$$(make -s demo-env)"
demo-env:
	@$(DEMO) env

## make demo-down   stop and remove the demo
demo-down:
	@$(DEMO) down

REAL = "$${CARGO_TARGET_DIR:-target}/debug/cluster" real
REAL_SAMPLE = --sample "$(or $(SAMPLE),deploy/samples/$(if $(filter 1,$(NODES)),real,real-two-nodes).yaml)"
HELM = $$("$${CARGO_TARGET_DIR:-target}/debug/cluster" programs helm4 | awk 'END {print $$NF}')
## make real        run a real cloud on real nodes on this machine (needs root); CHARTS=DIR, SAMPLE=FILE, NODES=1 to 3
real:
	$(CARGO) build -q -p osdpl -p cluster --bin osdpl --bin cluster
	@# Without CHARTS, pull the charts. Build the operator's image while the programs and images of the node are built.
	@charts="$${CHARTS:-target/charts}"; \
	if [ -z "$$CHARTS" ] && ! "$${CARGO_TARGET_DIR:-target}/debug/osdpl" charts pull --to "$$charts" --helm "$(HELM)"; then \
		echo 'make real cannot pull the charts of OpenStack-Helm: name a folder with charts, packaged by helm: make real CHARTS=DIR' >&2; exit 2; \
	fi; \
	$(REAL) prepare $(REAL_SAMPLE) & prepare=$$!; CHARTS="$$charts" $(MAKE) image-root || { kill $$prepare; exit 1; }; wait $$prepare
	$(REAL) up --nodes $(NODES) $(REAL_SAMPLE) --image-root target/image-root

## make real-check test the cloud of the current kubeconfig: wait until it is Ready, boot an instance …; CA=FILE
real-check:
	$(CARGO) build -q -p osdpl --bins
	"$${CARGO_TARGET_DIR:-target}/debug/osdpl" wait
	"$${CARGO_TARGET_DIR:-target}/debug/osdpl" smoke $(if $(CA),--ca "$(CA)")

# The tests of TLS need a sample with TLS, and those of migrations need two computes.
SKIPPED_TESTS = $(shell grep -sq '^    tls:' "$(SAMPLE)" || echo --skip tls::) $(if $(filter 1,$(NODES)),--skip migration::)
## make test-real   run make real, and then the tests of the real cloud, which take half an hour; CHARTS=DIR, NODES=2
test-real: real
	$(CARGO) test --workspace --test openstack --no-run
	eval "$$($(REAL) env)" && $(CARGO) test --workspace --test openstack -- --ignored --nocapture --test-threads 1 $(SKIPPED_TESTS)

## make real-env    print the environment of the real cloud: eval "$$(make -s real-env)"
real-env:
	@$(REAL) env

## make real-down   stop the real nodes and remove their data; programs and images are kept
real-down:
	@$(REAL) down

## make build       build osdpl (target/release/osdpl)
build:
	$(CARGO) build --release -p osdpl --bins

# Builds the program for the operator's image.
dist:
	$(CARGO) rustc --config deploy/dist.toml --profile dist -p osdpl --bin osdpl -- -Clink-arg=-Wl,-T,deploy/rare-code.ld

## make check       run the tests without a control plane: lints, unit tests, golden files, bad inputs, layout, deploy
check: lint
	$(CARGO) test --workspace --no-fail-fast --lib --bins --test golden --test validate --test catalogue --test layout --test seeds
	$(CARGO) test --workspace --no-fail-fast --test deploy -- --skip server:: --skip image::operator_runs_in_the_image

## make test        run what make check runs, and the integration tests on local control planes
test: lint
	$(CARGO) test --workspace --no-run
	target="$${CARGO_TARGET_DIR:-target}" && "$$target/debug/cluster" programs && "$$target/debug/cluster" python
	RUST_TEST_THREADS=$(TEST_THREADS) $(CARGO) test --workspace --no-fail-fast

## make test-charts run the tests with upstream's charts: rendering, RBAC, complete clouds, adoption; CHARTS=DIR
test-charts:
	@test -n "$$CHARTS" || { echo 'make test-charts needs a folder with the charts of OpenStack-Helm, packaged by helm: make test-charts CHARTS=DIR' >&2; exit 2; }
	$(CARGO) test --workspace --test deploy -- upstream rbac --include-ignored
	$(CARGO) test --workspace --test operator all_services:: -- --ignored --test-threads 1 --skip other_projects::
	$(CARGO) test --workspace --test operator adopt:: -- --ignored
	@if ls "$$CHARTS" | grep -q '^rook-ceph'; then $(CARGO) test --workspace --test operator all_services::other_projects:: -- --ignored; \
	else echo "skipped the tests with charts of other projects: $$CHARTS contains no chart rook-ceph"; fi

## make faults      run the long tests of outages and of hostile tenants, on local control planes
faults:
	$(CARGO) test --workspace --test operator -- --ignored outages:: hostile:: proxy:: --test-threads 2

## make test-upgrade update the operator from an older version to this one and back, on a running cloud; FROM=REF
test-upgrade:
	@test -n "$(FROM)" || { echo 'make test-upgrade needs the older version, such as a tag: make test-upgrade FROM=v0.1.0' >&2; exit 2; }
	mkdir -p target/previous
	find target/previous -mindepth 1 -maxdepth 1 ! -name target -exec rm -r {} +
	@# tar -m: with the files' real times, cargo would not rebuild files that are older than its last build.
	git archive "$(FROM)" | tar -xm -C target/previous
	cd target/previous && CARGO_TARGET_DIR=target $(CARGO) build --locked --package osdpl --bins
	PREVIOUS=$(CURDIR)/target/previous $(CARGO) test --workspace --test operator versions:: -- --ignored

# The processor time for each fuzz target.
SECONDS ?= 600
## make fuzz        fuzz all that osdpl reads from others: SECONDS=600 of processor time for each of TARGETS
fuzz:
	$(CARGO) clippy --package fuzz --features libfuzzer -- -D warnings
	CARGO=$(CARGO) tests/fuzz/run $(SECONDS) $(TARGETS)

## make sweep       kill the operator and helm at each write of install, upgrade and deletion; takes about 40 minutes
sweep:
	$(CARGO) test --workspace --test operator sweep:: -- --ignored --nocapture --test-threads 1

## make times       measure make check, make test and the builds, and the size of the program; takes half an hour
times:
	tests/times

## make bench       compare the operator with plain helm: time, memory, latency; CHARTS=DIR for real charts
bench: dist
	$(CARGO) build --release -p cluster -p bench --bins
	$(CARGO) run --release -q -p bench -- --osdpl target/dist/osdpl --sample deploy/samples/minimal.yaml \
		--charts "$${CHARTS:-tests/charts}"

## make bench-scale benchmark the operator with 60 releases, 5 000 pods and 300 nodes
bench-scale: dist
	$(CARGO) build --release -p cluster -p bench --bins
	$(CARGO) run --release -q -p bench -- --osdpl target/dist/osdpl --sample deploy/samples/minimal.yaml \
		--charts tests/charts --scale

## make bench-plan  benchmark loading, resolving and planning (60 and 1 000 releases), and osdpl validate; no cluster
bench-plan: dist
	$(CARGO) build --release -p bench --bins
	$(CARGO) run --release -q -p bench -- --osdpl target/dist/osdpl --sample deploy/samples/storage.yaml --charts tests/charts --plan

## make soak        run a cloud for an hour, or MINUTES: writes without a cause, memory, open files of the operator
soak: dist
	MINUTES="$${MINUTES:-60}" OSDPL_PROGRAM="$(CURDIR)/target/dist/osdpl" \
		$(CARGO) test --workspace --test operator soak:: -- --include-ignored --nocapture --test-threads 1

## make golden      update the golden files of presets, OpenStack releases and samples; review: git diff tests/golden
golden:
	INSTA_UPDATE=always $(CARGO) test --workspace --test golden

## make options     update the options of OpenStack's services in values/options; CONSTRAINTS=DIR for upper constraints
options:
	CONSTRAINTS="$(CONSTRAINTS)" tests/options/generate

## make docs        build the documentation site in target/site: guide, runbook, decisions, reference; check its links
docs:
	sh deploy/docs/generate target/book
	$(MDBOOK) --version >/dev/null 2>&1 || $(CARGO) install mdbook --locked --version $(MDBOOK_VERSION) \
		--no-default-features --features search --root target/tools
	PATH="$(CURDIR)/target/tools/bin:$$PATH" $(MDBOOK) build target/book
	$(CARGO) test --workspace --quiet --test deploy -- docs:: reference:: runbook::

## make lint        check formatting and lints
lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

## make image-root  build the root filesystem of the operator's image in target/image-root
image-root: dist
	$(CARGO) build -q -p osdpl -p cluster --bin cluster
	deploy/image-root target/image-root --osdpl target/dist/osdpl \
		--helm "$(HELM)" $${CHARTS:+--charts "$$CHARTS"}
