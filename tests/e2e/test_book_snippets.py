"""Every program in the book runs as written, outside the repository; only the port of Redis is another."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import artefacts
import pytest
from redis_servers import RedisServer
from snippets import DOCS, READ, RUN, THEIRS, Snippet, pages, snippets

# Pages whose programs need more than our packages, and where that is tested instead.
ELSEWHERE = {
    "python-frameworks.md": "test_python_frameworks.py",
    "node-frameworks.md": "test_node_frameworks.py",
    "c.md": "test_c_docs.py",
    "testing.md": "test_docs.py",
}
HERE = [each for page in pages() if page not in ELSEWHERE for each in snippets(page)]


def ours(language: str) -> list[Snippet]:
    return [each for each in HERE if each.language == language and not each.theirs]


def written(directory: Path, name: str, snippet: Snippet, redis: RedisServer) -> Path:
    path = directory / name
    path.write_text(snippet.text.replace("localhost:6379", f"localhost:{redis.port}"))
    return path


def check(
    snippet: Snippet, command: Sequence[str | Path], cwd: Path, env: dict[str, str] | None = None
) -> None:
    line = [str(word) for word in command]
    everything = {**os.environ, **(env or {})}
    done = subprocess.run(line, cwd=cwd, env=everything, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, ""), f"{snippet}\n{done.stdout}\n{done.stderr}"
    if snippet.output is not None:
        assert done.stdout == snippet.output


def test_every_block_is_of_a_known_kind() -> None:
    assert {each.language for each in HERE} <= {*RUN, *READ}
    for page in set(pages()) - ELSEWHERE.keys():
        text = (DOCS / page).read_text()
        found = sum(1 + (each.output is not None) for each in snippets(page))
        assert text.count("\n```") == 2 * found, f"{page} has a fence that is no block's"
        assert text.count(THEIRS) == sum(each.theirs for each in snippets(page)), page
    assert all(each.page.startswith("moving/") for each in HERE if each.theirs)


@pytest.mark.parametrize(("page", "test"), ELSEWHERE.items())
def test_what_is_not_run_here_is_run_elsewhere(page: str, test: str) -> None:
    if (DOCS / page).exists():
        assert page in (Path(__file__).parent / test).read_text()


@pytest.mark.parametrize("snippet", ours("python"), ids=str)
def test_python(snippet: Snippet, python: Path, redis: RedisServer, tmp_path: Path) -> None:
    check(snippet, [python, written(tmp_path, "main.py", snippet, redis)], tmp_path)


def test_python_types(tmp_path: Path) -> None:
    """Of all pages. Functions of the reader's may go without types, as many who use Flask write them."""
    every = [each for page in pages() for each in snippets(page)]
    settings = "# settings.py"
    found = [
        each
        for each in every
        if each.language == "python" and not each.theirs and not each.text.startswith(settings)
    ]
    assert len(found) > 20
    for snippet in found:
        (tmp_path / f"{snippet.program()}.py").write_text(snippet.text)
    untyped = ["--allow-untyped-defs", "--allow-untyped-calls"]
    line = [sys.executable, "-m", "mypy", "--strict", *untyped, "--config-file=", "--cache-dir=cache", "."]
    sources = artefacts.ROOT / "bindings-python" / "python"
    env = {**os.environ, "MYPYPATH": str(sources)}
    done = subprocess.run(line, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("snippet", ours("js"), ids=str)
def test_node(snippet: Snippet, node: Path, redis: RedisServer) -> None:
    check(snippet, ["node", written(node, f"{snippet.program()}.mjs", snippet, redis)], node)


@pytest.mark.parametrize("snippet", ours("c"), ids=str)
def test_c(snippet: Snippet, c_prefix: Path, redis: RedisServer, tmp_path: Path) -> None:
    source = written(tmp_path, "main.c", snippet, redis)
    program = artefacts.compile_c(source, tmp_path / "main", c_prefix)
    check(snippet, [program], tmp_path, artefacts.c_env(c_prefix))


def test_rust(rust: Path, redis: RedisServer) -> None:
    """All in one build, since linking is what takes the time."""
    programs = ours("rust")
    words: list[str | Path] = ["cargo", "build", "--quiet"]
    for snippet in programs:
        written(rust / "src" / "bin", f"{snippet.program()}.rs", snippet, redis)
        words += ["--bin", snippet.program()]
    target = artefacts.ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
    artefacts.run([*words, "--target-dir", target], cwd=rust)
    for snippet in programs:
        check(snippet, [target / "debug" / snippet.program()], rust)


@pytest.mark.parametrize("snippet", [each for each in HERE if each.theirs], ids=str)
def test_theirs_can_be_read(snippet: Snippet, tmp_path: Path) -> None:
    if snippet.language == "python":
        ast.parse(snippet.text)
    elif snippet.language == "js":
        source = tmp_path / "main.mjs"
        source.write_text(snippet.text)
        check(snippet, ["node", "--check", source], tmp_path)
