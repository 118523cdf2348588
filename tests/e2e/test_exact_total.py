"""Eight processes of three languages share one count, and together they get exactly that count."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from pathlib import Path

import artefacts
import pytest
from programs import SOURCES, Recipe
from redis_servers import RedisServer

COUNT, TRIES = 1000, 500


@pytest.fixture(scope="module")
def recipes(
    python: Path, node: Path, c_prefix: Path, tmp_path_factory: pytest.TempPathFactory
) -> list[Recipe]:
    shutil.copy(SOURCES / "tries.mjs", node)
    program = artefacts.compile_c(SOURCES / "tries.c", tmp_path_factory.mktemp("tries") / "tries", c_prefix)
    in_python = Recipe("python", [python, SOURCES / "tries.py"], {})
    in_node = Recipe("node", ["node", node / "tries.mjs"], {})
    in_c = Recipe("c", [program], artefacts.c_env(c_prefix))
    return [in_python, in_python, in_python, in_node, in_node, in_node, in_c, in_c]


@pytest.mark.parametrize("attempt", range(5))
def test_exactly_the_count_is_admitted(attempt: int, recipes: list[Recipe], redis: RedisServer) -> None:
    with contextlib.ExitStack() as cleanup:
        processes = []
        for recipe in recipes:
            process = subprocess.Popen(
                recipe.line(redis.url, f"fixed-window {COUNT}/h", str(TRIES)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=recipe.environment(),
                text=True,
            )
            cleanup.callback(process.kill)
            processes.append(process)
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        said = [process.communicate(timeout=60)[0].strip() for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes)
    assert sum(int(words.split()[0]) for words in said) == COUNT, said
