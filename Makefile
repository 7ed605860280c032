# The README says what these are for.
CARGO ?= cargo
.DEFAULT_GOAL := help

.PHONY: help build test lint fmt
help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST)

## make build       build osdpl (target/release/osdpl)
build:
	$(CARGO) build --release --bin osdpl

## make test        run everything: lints, units, and integration on a real local control plane
test: lint
	$(CARGO) build --workspace --bins
	$(CARGO) run --quiet -p cluster --bin cluster -- programs
	$(CARGO) test --workspace

## make lint        format and lints
lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
