"""Users, passwords, databases, Unix sockets: who is let in gets a connection, and who is not goes on locally."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import artefacts
import pytest
from programs import SOURCES, Driver, Recipe, Running, Workshop
from redis_cluster import RedisCluster, RedisSentinel
from redis_servers import RedisServer
from resp import Resp

ACL_PAGE = (artefacts.ROOT / "docs" / "acl.md").read_text()
# What stands for something in a URL, and what does in RESP.
PASSWORD = 'p@ss/w:rd?#%&+= "$3\\'
CALLS = 3000


def acl_line(number: int = 0) -> list[str]:
    """A line of the page, as the words of a command, with our password."""
    lines = re.findall(r"^    (ACL SETUSER .*)$", ACL_PAGE, flags=re.MULTILINE)
    return str(lines[number]).replace("CHANGE-ME", PASSWORD).split(" ", 5)[:5] + words_after(lines[number])


def words_after(line: str) -> list[str]:
    return line.split(" ")[5:]


def more(what: str) -> list[str]:
    """What the page's table says is to be added."""
    [added] = re.findall(rf"^\| {what}.*?\| (.*) \|$", ACL_PAGE, flags=re.MULTILINE)
    words: list[str] = re.findall(r"\+[a-z|\\]+", added.replace("\\|", "|"))
    return words


def url_of(redis: RedisServer, user: str = "sluicegate", password: str = PASSWORD, database: str = "") -> str:
    return f"redis://{user}:{quote(password, safe='')}@127.0.0.1:{redis.port}{database}"


@pytest.fixture
def told(workshop: Workshop) -> Iterator[Told]:
    yield Told(workshop.recipe("python", "told"))


class Told:
    """Makes calls until something is told."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe

    def open(self, *arguments: str) -> Running:
        return Running(self._recipe.line(*arguments), self._recipe.environment())

    @staticmethod
    def until(running: Running, source: str, says: str = "", seconds: float = 20.0) -> dict[str, object]:
        """Every call is admitted, and in time one is decided there while the status says so."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            answer = running.ask("key")
            assert answer["allowed"] is True, answer
            assert PASSWORD not in answer["all"], answer
            assert quote(PASSWORD, safe="") not in answer["all"], answer
            if answer["source"] == source and says in (answer["last_error"] or ""):
                return answer
            time.sleep(0.02)
        raise AssertionError(f"not {source} {says!r} within {seconds} s: {answer}")
