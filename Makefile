# Sluicegate: `make help` lists what can be made.

PREFIX ?= /usr/local
DESTDIR ?=
PYTHON := .venv/bin/python
TARGET := $(or $(CARGO_TARGET_DIR),target)
# Where rustup puts cargo, for a shell that has not been told yet.
export PATH := $(PATH):$(HOME)/.cargo/bin

.DEFAULT_GOAL := help
.PHONY: help setup build wheel npm lib install-c demo-worker demo pacing payments plans-api gateway c-server bench test fuzz miri lint header book pictures clean

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install what is missing: packages, Rust, .venv, node_modules
	@tests/tools/setup.sh

build: wheel npm lib demo-worker ## Everything that is shipped, in release mode

wheel: setup ## The Python wheel, in dist/
	rm -f dist/*.whl
	$(PYTHON) -m maturin build --quiet --release --locked --manifest-path bindings-python/Cargo.toml --target-dir bindings-python/target --out dist

npm: setup ## The Node package, in dist/
	rm -f dist/*.tgz
	cd bindings-node && npm run --silent build
	mkdir -p dist
	cd bindings-node && npm pack --silent --pack-destination ../dist

lib: ## The C library, shared and static
	cargo build --release --locked --package sluicegate-c

install-c: lib ## Install the C library, headers, pkg-config and CMake files below PREFIX
	@$(MAKE) --no-print-directory -C bindings-c install PREFIX="$(abspath $(PREFIX))" DESTDIR="$(DESTDIR)"

demo-worker:
	cargo build --release --locked --package sluicegate --example demo_worker

demo: build ## Seven processes in four languages share one limit while Redis dies and returns
	@PYTHONPATH=tests/tools $(PYTHON) examples/demo/demo.py --rust-worker $(TARGET)/release/examples/demo_worker

pacing: build ## Processes in three languages send at one exact rate
	@PYTHONPATH=tests/tools $(PYTHON) examples/pacing/pacing.py

bench: wheel npm lib ## Ours and the peers' side by side on one Redis; BENCH="--only node" and the like narrow it
	@PYTHONPATH=tests/tools $(PYTHON) benches/bench.py $(BENCH)

payments: wheel ## Workers that wait their turn at three payment providers
	@PYTHONPATH=tests/tools $(PYTHON) examples/payments/payments.py

plans-api: wheel ## An API with plans, on FastAPI; REDIS_URL says where its limits are
	@$(MAKE) --no-print-directory -C examples/plans-api run WHEEL="$$(echo $(CURDIR)/dist/*.whl)" PYTHON=.venv/bin/python

gateway: npm ## A gateway on Fastify that limits by address and by API key; REDIS_URL says where its limits are
	@$(MAKE) --no-print-directory -C examples/gateway run PACKAGE="$$(echo $(CURDIR)/dist/*.tgz)"

c-server: lib ## An HTTP server in C that limits by client address; ARGS are its options
	@$(MAKE) --no-print-directory -s -C bindings-c install PREFIX="$(abspath $(TARGET))/c-prefix" DESTDIR=
	@PKG_CONFIG_PATH="$(abspath $(TARGET))/c-prefix/lib/pkgconfig" $(MAKE) --no-print-directory -C examples/c-server run

test: build ## Every test, in all four languages, on real servers
	@$(PYTHON) tests/tools/run_tests.py

fuzz: setup ## Fuzz each target of tests/fuzz for SECONDS (60 unless said)
	@$(PYTHON) tests/tools/fuzz.py $(or $(SECONDS),60)

# What has unsafe code and opens neither a socket nor a process, which Miri does not know: the C
# interface on memory://, and what is kept over a fork. Needs a nightly toolchain with miri and rust-src.
MIRI := MIRIFLAGS=-Zmiri-disable-isolation cargo +nightly miri test --quiet --locked --target-dir $(TARGET)/miri --lib
miri: ## The unsafe code under Miri, as far as that goes
	$(MIRI) --package sluicegate-c
	$(MIRI) --package sluicegate -- runtime::

lint: setup ## Formatters, linters and type checks
	@tests/tools/lint.sh

header: ## Write bindings-c/include/sluicegate.h anew from its source
	@$(MAKE) --no-print-directory -C bindings-c header

book: setup ## The documentation, in target/book
	$(PYTHON) -m mkdocs build --quiet --strict

pictures: wheel ## Draw the book's pictures anew, from the library as it is
	@PYTHONPATH=tests/tools $(PYTHON) docs/tools/draw.py

clean: ## Remove what was built; .venv and node_modules stay
	cargo clean
	rm -rf dist bindings-python/target
