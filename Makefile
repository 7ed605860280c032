# The README says what these are for.
CARGO ?= cargo
.DEFAULT_GOAL := help
SHELL := bash
DEMO := tests/demo/demo.sh
# Charts of your own for demo and bench: a checkout of OpenStack-Helm, or a folder of packaged charts.
CHARTS ?=
export CHARTS
# The program that builds the documentation; installed into target/tools where it is missing.
MDBOOK := $(or $(wildcard target/tools/bin/mdbook),mdbook)
MDBOOK_VERSION := 0.5.4

.PHONY: help build test test-charts lint demo demo-env demo-down bench bench-scale bench-plan golden docs image-root

help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST)

## make demo        a Ready cloud on a real local control plane; CHARTS=DIR for real charts instead of stand-ins
demo:
	@$(DEMO) up

## make demo-env    what to eval in a shell to look around in it: eval "$$(make -s demo-env)"
demo-env:
	@$(DEMO) env

## make demo-down   end it
demo-down:
	@$(DEMO) down

## make build       build osdpl (target/release/osdpl)
build:
	$(CARGO) build --release --bin osdpl

## make test        run everything: lints, units, and integration on a real local control plane
test: lint
	$(CARGO) build --workspace --bins
	$(CARGO) run --quiet -p cluster --bin cluster -- programs
	$(CARGO) run --quiet -p cluster --bin cluster -- python
	$(CARGO) test --workspace --no-fail-fast

## make test-charts  with upstream's charts: all render, need no right that is not shipped, make whole clouds, and one by hand comes in; CHARTS=DIR
test-charts:
	@test -n "$$CHARTS" || { echo 'test-charts needs OpenStack-Helm packaged by helm: make test-charts CHARTS=DIR' >&2; exit 2; }
	$(CARGO) test --test deploy -- upstream rbac --include-ignored
	$(CARGO) test --test operator whole:: -- --ignored --test-threads 1 --skip others::
	$(CARGO) test --test operator adopt:: -- --ignored
	@if ls "$$CHARTS" | grep -q '^rook-ceph'; then $(CARGO) test --test operator whole::others:: -- --ignored; \
	else echo 'the charts of other projects are not in CHARTS: nobody tried them'; fi

## make bench       the operator beside bare helm: time, memory, delay; CHARTS=DIR for real charts
bench:
	$(CARGO) build --release -p osdpl -p cluster -p bench --bins
	$(CARGO) run --release -q -p bench -- --osdpl target/release/osdpl --sample deploy/samples/minimal.yaml \
		--charts "$${CHARTS:-tests/charts}"

## make bench-scale the operator with 60 releases, 5 000 pods and 300 nodes
bench-scale:
	$(CARGO) build --release -p osdpl -p cluster -p bench --bins
	$(CARGO) run --release -q -p bench -- --osdpl target/release/osdpl --sample deploy/samples/minimal.yaml \
		--charts tests/charts --scale

## make bench-plan  loading, resolving and planning, of 60 and of 1 000 releases, and osdpl validate as a whole; no cluster
bench-plan:
	$(CARGO) build --release -p osdpl -p bench --bins
	$(CARGO) run --release -q -p bench -- --osdpl target/release/osdpl --sample deploy/samples/storage.yaml --charts tests/charts --plan

## make golden      write what presets, OpenStack releases and samples mean anew; look at: git diff tests/golden
golden:
	INSTA_UPDATE=always $(CARGO) test --test golden

## make docs        the documentation as a site, in target/site: guide, runbook, decisions, generated reference; checks its links
docs:
	sh deploy/docs/generate target/book
	$(MDBOOK) --version >/dev/null 2>&1 || $(CARGO) install mdbook --locked --version $(MDBOOK_VERSION) \
		--no-default-features --features search --root target/tools
	PATH="$(CURDIR)/target/tools/bin:$$PATH" $(MDBOOK) build target/book
	$(CARGO) test --quiet --test deploy -- docs:: reference:: runbook::

## make lint        format and lints
lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

## make image-root  the root folder of the operator's image, in target/image-root
image-root: build
	$(CARGO) build -q -p osdpl -p cluster --bin cluster
	deploy/image-root target/image-root --osdpl target/release/osdpl \
		--helm "$$(target/debug/cluster programs helm4 | awk 'END {print $$NF}')" $${CHARTS:+--charts "$$CHARTS"}
