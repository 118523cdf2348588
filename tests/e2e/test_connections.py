"""Users, passwords, databases, Unix sockets: who is let in, and who is not and so goes on locally."""

from __future__ import annotations

import json
import re
import subprocess
import time
from urllib.parse import quote

import artefacts
import pytest
from programs import Driver, Recipe, Running, Workshop
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
    return [word.replace("CHANGE-ME", PASSWORD) for word in str(lines[number]).split(" ")]


def more(what: str) -> list[str]:
    """What the page's table says is to be added."""
    [added] = re.findall(rf"^\| {what}.*?\| (.*) \|$", ACL_PAGE, flags=re.MULTILINE)
    words: list[str] = re.findall(r"\+[a-z|\\]+", added.replace("\\|", "|"))
    return words


def url_of(redis: RedisServer, user: str = "sluicegate", password: str = PASSWORD, database: str = "") -> str:
    return f"redis://{user}:{quote(password, safe='')}@127.0.0.1:{redis.port}{database}"


class Told:
    """Makes calls, and hears what the status says."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe

    def open(self, *arguments: str) -> Running:
        return Running(self._recipe.line(*arguments), self._recipe.environment())

    @staticmethod
    def until(running: Running, source: str, says: str = "", seconds: float = 20.0) -> None:
        """All calls are admitted and tell no secret; in time one is decided there, and the status says so."""
        end = time.monotonic() + seconds
        while True:
            answer = running.ask("key")
            assert answer["allowed"] is True, answer
            assert PASSWORD not in answer["all"], answer
            assert quote(PASSWORD, safe="") not in answer["all"], answer
            if answer["source"] == source and says in (answer["last_error"] or ""):
                return
            assert time.monotonic() < end, f"not {source} {says!r} within {seconds} s: {answer}"
            time.sleep(0.02)


@pytest.fixture
def told(workshop: Workshop) -> Told:
    return Told(workshop.recipe("python", "told"))


def used(server: RedisServer) -> set[str]:
    """The commands that have been called, in scripts too."""
    lines = re.findall(r"^cmdstat_([^:]+):calls=(\d+)", server.command("INFO", "commandstats"), re.MULTILINE)
    return {command for command, calls in lines if int(calls) > 0}


def denied(server: RedisServer) -> list[str]:
    """What somebody was denied, but for a name that newer servers let a client give itself."""
    log = server.command("ACL", "LOG").splitlines()
    objects = [log[at + 1] for at, word in enumerate(log) if word == "object"]
    return [denied for denied in objects if denied not in ("client|setinfo", "client")]


def mixed_calls(workshop: Workshop, url: str) -> None:
    """Every verb on every algorithm, awaited and blocking; what fails raises."""
    python = workshop.recipe("python", "mixed_calls")
    line = python.line(url, str(CALLS), "7")
    done = subprocess.run(line, env=python.environment(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    assert sum(json.loads(done.stdout).values()) == CALLS
    with Driver(workshop.recipe("python", "driver"), url, "1000000/s", timeout_s=5) as calls:
        # A connection of the caller's own comes about aside.
        for _ in range(50):
            assert calls.call("key")["source"] == "redis"
            time.sleep(0.01)


def test_each_way_in(driver: Recipe) -> None:
    """A user, the default user, a database, a Unix socket: as each language says it in the URL."""
    with RedisServer(unix_socket=True) as redis, Resp(redis.port) as resp:
        resp("ACL", "SETUSER", "user", "on", f">{PASSWORD}", "~*", "&*", "+@all")
        resp("CONFIG", "SET", "requirepass", PASSWORD)
        secret = quote(PASSWORD, safe="")
        urls = {
            0: url_of(redis, user=""),
            3: url_of(redis, user="user", database="/3"),
            15: url_of(redis, user="default", database="/15"),
            1: f"redis+unix://{redis.unix_socket}?db=1&user=user&pass={secret}",
            2: f"redis+unix://{redis.unix_socket}?db=2&pass={secret}",
        }
        for database, url in urls.items():
            with Driver(driver, url, "5/h", timeout_s=5) as calls:
                answers = [calls.call("key") for _ in range(6)]
            assert [answer["allowed"] for answer in answers] == [True] * 5 + [False], url
            assert {answer["source"] for answer in answers[:5]} == {"redis"}, url
            resp("SELECT", database)
            assert b"sg:token-bucket:driven:{key}" in resp("KEYS", "*"), url
        # Nothing went to another database than was said.
        keyspace = resp("INFO", "keyspace").decode()
        assert {int(number) for number in re.findall(r"^db(\d+):", keyspace, re.MULTILINE)} == set(urls)


def test_the_smallest_user(workshop: Workshop) -> None:
    """The line of docs/acl.md suffices for every verb and algorithm, and every command in it is used."""
    with RedisServer() as redis:
        assert redis.command(*acl_line()) == "OK"
        redis.command("CONFIG", "RESETSTAT")
        mixed_calls(workshop, url_of(redis))
        granted = {word[1:] for word in acl_line() if word.startswith("+")}
        assert granted - used(redis) == set(), "granted, and not needed"
        assert denied(redis) == []
        assert more("a database") == ["+select"]
        redis.command("ACL", "SETUSER", "sluicegate", *more("a database"))
        mixed_calls(workshop, url_of(redis, database="/3"))
        assert denied(redis) == []


def test_the_smallest_user_of_a_cluster(workshop: Workshop) -> None:
    with RedisCluster(masters=3) as cluster:
        for node in cluster.nodes:
            node.command(*acl_line(), *more("Cluster"))
        nodes = ",".join(f"127.0.0.1:{node.port}" for node in cluster.nodes)
        mixed_calls(workshop, f"redis+cluster://sluicegate:{quote(PASSWORD, safe='')}@{nodes}")
        assert [denied(node) for node in cluster.nodes] == [[], [], []]


def test_the_smallest_users_of_sentinels(workshop: Workshop) -> None:
    with RedisSentinel() as watched:
        for server in (watched.master, watched.replica):
            server.command(*acl_line(), *more("Sentinel"))
        for sentinel in watched.sentinels:
            sentinel.command(*acl_line(1))
        secret = quote(PASSWORD, safe="")
        url = watched.url.replace("://", f"://sluicegate:{secret}@", 1)
        url += f"?sentinel_username=sluicegate&sentinel_password={secret}"
        mixed_calls(workshop, url)
        assert [denied(server) for server in (watched.master, *watched.sentinels)] == [[]] * 4


def test_a_wrong_password_is_an_outage_until_it_is_right(told: Told) -> None:
    with RedisServer() as redis:
        redis.command(*acl_line())
        redis.command("ACL", "SETUSER", "sluicegate", "resetpass", ">another")
        with told.open(url_of(redis)) as calls:
            told.until(calls, "outage", "WRONGPASS")
            redis.command("ACL", "SETUSER", "sluicegate", f">{PASSWORD}")
            told.until(calls, "redis")
            # A password that is changed under a connection counts from the next one on.
            redis.command("ACL", "SETUSER", "sluicegate", "resetpass", ">another")
            redis.command("CLIENT", "KILL", "USER", "sluicegate")
            told.until(calls, "outage", "WRONGPASS")
            redis.command("ACL", "SETUSER", "sluicegate", f">{PASSWORD}")
            told.until(calls, "redis")
            redis.command("ACL", "SETUSER", "sluicegate", "off")
            redis.command("CLIENT", "KILL", "USER", "sluicegate")
            told.until(calls, "outage", "WRONGPASS")


def test_no_password_where_one_is_needed(told: Told) -> None:
    with RedisServer() as redis, Resp(redis.port) as resp:
        resp("CONFIG", "SET", "requirepass", PASSWORD)
        with told.open(redis.url) as calls:
            told.until(calls, "outage", "NOAUTH")
            resp("CONFIG", "SET", "requirepass", "")
            told.until(calls, "redis")


@pytest.mark.parametrize("missing", ["evalsha", "time", "zadd", "set"])
def test_a_missing_permission_is_an_outage_until_it_is_given(told: Told, missing: str) -> None:
    with RedisServer() as redis:
        redis.command(*acl_line(), f"-{missing}")
        with told.open(url_of(redis)) as calls:
            says = "NoPerm" if missing == "evalsha" else "can't run this command"
            told.until(calls, "outage", says, seconds=5)
            redis.command("ACL", "SETUSER", "sluicegate", f"+{missing}")
            told.until(calls, "redis")


def test_keys_of_another_prefix_are_denied(told: Told) -> None:
    with RedisServer() as redis:
        redis.command(*acl_line())
        with told.open(url_of(redis), "other") as calls:
            told.until(calls, "outage", "NoPerm")
        assert redis.command("KEYS", "*") == ""
