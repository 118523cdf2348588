"""Certificates for tests, made with openssl: an authority, and what it has signed."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, in PEM format."""

    certificate: Path
    key: Path


class Authority(Pair):
    def __init__(self, directory: Path, name: str) -> None:
        self._directory, self._made = directory, 0
        directory.mkdir(parents=True, exist_ok=True)
        super().__init__(directory / f"{name}.pem", directory / f"{name}.key")
        _openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-keyout", str(self.key), "-out", str(self.certificate), "-days", "2"),
            *("-subj", f"/CN={name}", "-addext", "basicConstraints=critical,CA:TRUE"),
        )

    def sign(self, name: str, alternatives: str = "", days: int = 2) -> Pair:
        """A certificate for these alternative names, such as `DNS:localhost,IP:127.0.0.1`."""
        self._made += 1
        pair = Pair(self._directory / f"{name}.pem", self._directory / f"{name}.key")
        request, extensions = self._directory / f"{name}.csr", self._directory / f"{name}.ext"
        extensions.write_text(f"subjectAltName={alternatives or f'DNS:{name}'}\nbasicConstraints=CA:FALSE\n")
        _openssl(
            *("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-keyout", str(pair.key), "-out", str(request), "-subj", f"/CN={name}"),
        )
        _openssl(
            *("x509", "-req", "-in", str(request), "-CA", str(self.certificate), "-CAkey", str(self.key)),
            *("-set_serial", str(self._made), "-days", str(days), "-extfile", str(extensions)),
            *("-out", str(pair.certificate)),
        )
        return pair


def _openssl(*words: str) -> None:
    done = subprocess.run(["openssl", *words], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise RuntimeError(f"openssl {' '.join(words)}: {done.stderr}")
