#!/usr/bin/env bash
# Formatters, linters and type checks of every language.
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=$PWD/.venv/bin

step() { echo "lint: $*"; "$@"; }

step cargo fmt --all --check
step cargo fmt --check --manifest-path benches/rust/Cargo.toml
step cargo clippy --workspace --all-targets --features sluicegate/bench-internals --locked --quiet -- -D warnings
(cd bindings-python && step "$bin/ruff" check . && step "$bin/ruff" format --check . && step "$bin/mypy")
step "$bin/ruff" check --config tests/ruff.toml tests examples benches docs/tools
step "$bin/ruff" format --check --config tests/ruff.toml tests examples benches docs/tools
step "$bin/mypy" --config-file tests/mypy.ini tests/tools tests/e2e/*.py tests/scenarios/*.py examples/*/*.py benches/*.py benches/rig/*.py docs/tools/*.py
# Each directory by itself: there are modules of one name.
for workers in examples/*/workers; do
  MYPYPATH=$workers:bindings-python/python step "$bin/mypy" --strict --config-file= --python-version 3.10 --explicit-package-bases "$workers"/*.py
done
step "$bin/python" tests/scenarios/check.py
(cd bindings-node && step npm run --silent lint)
(cd bindings-node && step npx --no-install tsc --project tsconfig.examples.json)
(cd bindings-node && step npx --no-install biome check ../tests/e2e/programs ../examples/demo ../examples/pacing ../examples/gateway ../benches/node)
(cd lua && step luacheck --quiet .)
