"""docs/c.md: every snippet is built as the page says, outside the repository, and run; only ports differ."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import artefacts
import pytest
from redis_servers import RedisServer

PAGE = (artefacts.ROOT / "docs" / "c.md").read_text()
# What each snippet prints, in the order of the page.
C_PRINTS = [
    ["go on, 199 left"],
    ["198.51.100.7: go on", "198.51.100.7: too many", "203.0.113.9: go on"],
    ["5 of 12 were admitted"],
    ["refused, says outage; the store is"],
    ["a minute passed at once"],
]
CPP_PRINTS = [["go on, 199 left", "one of 2"], ["7 goes on"]]


def snippets(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


COMMANDS = snippets("sh")


def run(commands: str, cwd: Path, prefix: Path) -> list[str]:
    """What the page's commands print, as lines; the shell ends at the first that fails."""
    env = {
        **os.environ,
        **artefacts.c_env(prefix),
        "CMAKE_PREFIX_PATH": str(prefix),
        "CFLAGS": "-Wall -Wextra -Werror",
    }
    done = subprocess.run(
        ["sh", "-eu"], input=commands, cwd=cwd, env=env, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout.splitlines()


def on(redis: RedisServer, snippet: str) -> str:
    return snippet.replace("localhost:6379", f"localhost:{redis.port}")


def test_the_page_has_what_is_tested_here() -> None:
    every = re.findall(r"^```(\w*)$", PAGE, flags=re.MULTILINE)
    assert [word for word in every if word] == (
        ["c", "sh", "cmake", "sh", "cpp", "sh", "c", "cpp", "c", "c", "c"]
    )
    assert len(snippets("c")) == len(C_PRINTS)
    assert len(snippets("cpp")) == len(CPP_PRINTS)


@pytest.mark.parametrize("number", range(len(C_PRINTS)))
def test_c(number: int, tmp_path: Path, c_prefix: Path, redis: RedisServer) -> None:
    (tmp_path / "main.c").write_text(on(redis, snippets("c")[number]))
    strict = COMMANDS[0].replace(
        "cc ", "cc -std=c11 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Wpedantic -Werror "
    )
    printed = sorted(run(strict, tmp_path, c_prefix))
    assert len(printed) == len(C_PRINTS[number])
    for line, expected in zip(printed, C_PRINTS[number], strict=True):
        assert line.startswith(expected)


@pytest.mark.parametrize("number", range(len(CPP_PRINTS)))
def test_cpp(number: int, tmp_path: Path, c_prefix: Path, redis: RedisServer) -> None:
    (tmp_path / "main.cpp").write_text(on(redis, snippets("cpp")[number]))
    strict = COMMANDS[2].replace("c++ ", "c++ -Wall -Wextra -Wpedantic -Werror ")
    assert run(strict, tmp_path, c_prefix) == CPP_PRINTS[number]


def test_cmake(tmp_path: Path, c_prefix: Path, redis: RedisServer) -> None:
    (tmp_path / "CMakeLists.txt").write_text(snippets("cmake")[0])
    (tmp_path / "main.c").write_text(on(redis, snippets("c")[0]))
    assert run(COMMANDS[1], tmp_path, c_prefix)[-1:] == C_PRINTS[0]


def test_every_function_that_the_page_names_is_there() -> None:
    header = (artefacts.ROOT / "bindings-c" / "include" / "sluicegate.h").read_text()
    named = set(re.findall(r"\b(?:sg|SG)_\w+", PAGE))
    missing = [name for name in named if not re.search(rf"\b{name}\b", header) and name != "sg_submit_"]
    assert len(named) > 20 and missing == []
    links = re.findall(r"\]\(([^)#]+)\)", PAGE)
    assert links and all((artefacts.ROOT / "docs" / link).exists() for link in links)
