#!/usr/bin/env bash
# Installs what is missing to build and test Sluicegate on Debian or Ubuntu: system packages, a
# Rust toolchain, a virtual environment in .venv, and the Node packages of bindings-node.
# Run it again at any time; with nothing missing it takes no time.
set -euo pipefail
cd "$(dirname "$0")/../.."

RUST_LEAST=1.88
NODE_LEAST=18
PYTHON_LEAST=3.10

say() { echo "setup: $*"; }
fail() { echo "setup: $*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }
at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }  # least, found

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif have sudo; then
    sudo "$@"
  else
    fail "need root (no sudo here) to run: $*"
  fi
}

# The packages are asked for by what they provide, so that a Node or Redis from elsewhere will do.
missing_packages() {
  have redis-server || echo redis-server
  have redis-sentinel || echo redis-sentinel
  have redis-cli || echo redis-tools
  have gcc || echo gcc
  have g++ || echo g++
  have clang++ || echo clang
  have cmake || echo cmake
  have cc || echo gcc
  have make || echo make
  have pkg-config || echo pkg-config
  have openssl || echo openssl
  have valgrind || echo valgrind
  have luacheck || echo lua-check
  have curl || echo curl
  have git || echo git
  [ -e /etc/ssl/certs/ca-certificates.crt ] || echo ca-certificates
  have python3 || echo python3
  have node || echo nodejs
  have npm || echo npm
  have pkg-config && pkg-config --exists jansson || echo libjansson-dev
  # Debian ships venv without ensurepip until this package is there.
  have python3 && python3 -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv
}

install_packages() {
  local packages
  mapfile -t packages < <(missing_packages | sort -u)
  [ "${#packages[@]}" -eq 0 ] && return
  have apt-get || fail "please install (this script knows only apt): ${packages[*]}"
  say "installing ${packages[*]}"
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}"
}

rust_version() { cargo --version 2>/dev/null | cut -d ' ' -f 2; }

install_rust() {
  have cargo && at_least "$RUST_LEAST" "$(rust_version)" && return
  if ! have rustup && have apt-get && apt-cache show rustup >/dev/null 2>&1; then
    say "installing rustup"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq rustup
  fi
  have rustup || fail "Rust $RUST_LEAST or newer is needed, found ${1:-none}." \
    "This release has no rustup package: install Rust with rustup (https://rustup.rs), then run make setup again."
  say "installing the stable Rust toolchain"
  rustup toolchain install stable --profile minimal --component rustfmt --component clippy
  rustup default stable
  hash -r
  at_least "$RUST_LEAST" "$(rust_version)" || fail "Rust $RUST_LEAST or newer is needed, cargo is $(rust_version)"
}

check_versions() {
  local node python
  node=$(node --version)
  python=$(python3 -c 'import platform; print(platform.python_version())')
  at_least "$NODE_LEAST" "${node#v}" || fail "Node $NODE_LEAST or newer is needed, node is $node"
  at_least "$PYTHON_LEAST" "$python" || fail "Python $PYTHON_LEAST or newer is needed, python3 is $python"
}

# A stamp that holds what was installed: another Python or other pins make it anew.
install_venv() {
  local wanted stamp=.venv/installed
  local requirements=(bindings-python/requirements-dev.txt docs/requirements.txt)
  wanted=$(python3 --version; cat "${requirements[@]}")
  [ -x .venv/bin/python ] && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && return
  say "making .venv"
  python3 -m venv --clear .venv
  .venv/bin/python -m pip install --quiet --disable-pip-version-check "${requirements[@]/#/--requirement=}"
  echo "$wanted" > "$stamp"
}

install_node_packages() {
  local stamp=bindings-node/node_modules/.package-lock.json
  [ "$stamp" -nt bindings-node/package-lock.json ] && return
  say "installing the Node packages"
  # Not `npm ci`: it refuses a lock file without the packages of other platforms, which a registry
  # that lacks those can't give. The versions are those of the lock file all the same.
  (cd bindings-node && npm install --no-save --no-audit --no-fund --loglevel=error)
  touch "$stamp"
}

install_packages
install_rust "$(rust_version || true)"
check_versions
install_venv
install_node_packages
