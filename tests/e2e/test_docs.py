"""The snippets of docs/testing.md run as written, outside the repository."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import artefacts

TESTING = (artefacts.ROOT / "docs" / "testing.md").read_text()


def snippet(language: str) -> str:
    [found] = re.findall(rf"^```{language}\n(.*?)^```$", TESTING, flags=re.MULTILINE | re.DOTALL)
    return str(found)


def run(*words: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    line = [str(word) for word in words]
    done = subprocess.run(line, cwd=cwd, env=env, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done
    return done.stdout


def test_python(python: Path, tmp_path: Path) -> None:
    (tmp_path / "snippet.py").write_text(snippet("python"))
    call_all = "import snippet; [run() for name, run in vars(snippet).items() if name.startswith('test_')]"
    count = "print(sum(name.startswith('test_') for name in vars(snippet)))"
    assert run(python, "-c", f"{call_all}; {count}", cwd=tmp_path) == "3\n"


def test_node(node: Path) -> None:
    (node / "snippet.test.mjs").write_text(snippet("js"))
    assert "# pass 3\n" in run("node", "--test", "--test-reporter=tap", "snippet.test.mjs", cwd=node)


def test_c(c_prefix: Path, tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text(snippet("c"))
    program = artefacts.compile_c(tmp_path / "main.c", tmp_path / "main", c_prefix)
    run(program, cwd=tmp_path, env=artefacts.c_env(c_prefix))


def test_rust(rust: Path) -> None:
    (rust / "tests").mkdir(exist_ok=True)
    (rust / "tests" / "snippet.rs").write_text(snippet("rust"))
    target = artefacts.ROOT / "target"
    out = run("cargo", "test", "--quiet", "--test", "snippet", "--target-dir", target, cwd=rust)
    assert "1 passed" in out
