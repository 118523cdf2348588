"""The README's quickstarts run as written, outside the repository; only the port is another."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import artefacts
import pytest
from programs import build_rust
from redis_servers import RedisServer

README = (artefacts.ROOT / "README.md").read_text()
GO_ON = "go on, 199 left"


def snippets(language: str) -> list[str]:
    found = re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
    assert found, f"README.md has no {language} snippet"
    return found


def on(redis: RedisServer, snippet: str) -> str:
    assert "localhost:6379" in snippet
    return snippet.replace("localhost:6379", f"localhost:{redis.port}")


def was_asked(redis: RedisServer) -> bool:
    """Whether a script ran there: the decision was not made elsewhere."""
    return "cmdstat_eval" in redis.command("INFO", "commandstats")


def run(*words: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    line = [str(word) for word in words]
    done = subprocess.run(line, cwd=cwd, env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout.strip()


@pytest.mark.parametrize("snippet", snippets("python"))
def test_python(snippet: str, python: Path, redis: RedisServer, tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(on(redis, snippet))
    assert run(python, "main.py", cwd=tmp_path) == GO_ON
    assert was_asked(redis)


def test_python_needs_nothing_else(python: Path) -> None:
    installed = artefacts.pip(python, "list", "--format=freeze").splitlines()
    assert [line.partition("==")[0] for line in installed] == ["sluicegate"]


@pytest.mark.parametrize("snippet", snippets("js"))
def test_node(snippet: str, node: Path, redis: RedisServer) -> None:
    (node / "main.mjs").write_text(on(redis, snippet))
    assert run("node", "main.mjs", cwd=node) == GO_ON
    assert was_asked(redis)


@pytest.mark.parametrize("snippet", snippets("c"))
@pytest.mark.parametrize("compiler", ["cc", "c++"])
def test_c(snippet: str, compiler: str, c_prefix: Path, redis: RedisServer, tmp_path: Path) -> None:
    source = tmp_path / ("main.c" if compiler == "cc" else "main.cpp")
    source.write_text(on(redis, snippet))
    program = artefacts.compile_c(source, tmp_path / "main", c_prefix, compiler)
    assert run(program, cwd=tmp_path, env=artefacts.c_env(c_prefix)) == GO_ON
    assert was_asked(redis)


@pytest.mark.parametrize("snippet", snippets("rust"))
def test_rust(snippet: str, rust: Path, redis: RedisServer) -> None:
    (rust / "src" / "bin" / "quickstart.rs").write_text(on(redis, snippet))
    assert run(build_rust(rust, "quickstart"), cwd=rust) == GO_ON
    assert was_asked(redis)


def test_every_spec_in_the_readme_is_one(python: Path, tmp_path: Path) -> None:
    lines = "\n".join(snippets("text")).splitlines()
    specs = [spec for line in lines for spec in re.split(r"\s{3,}", line) if spec and spec[0] != "b"]
    assert len(specs) > 8
    program = "import sluicegate, sys; [sluicegate.Limiter().limit('a', spec) for spec in sys.argv[1:]]"
    run(python, "-c", program, *specs, cwd=tmp_path)
