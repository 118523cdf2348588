"""Processes that fork, serve, start threads, open and close limiters, and run for long: they decide, they
end, and they hold no more than at the beginning."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import artefacts
import pytest
from programs import SOURCES, Running, Workshop
from redis_servers import LOOPBACK, RedisServer, die_with_parent, free_port
from report import table

SECONDS = 120
# How much memory may differ between two moments at which the same is held: what allocators and collectors
# keep for later. A leak of ten bytes a decision would be 10 MB after 10^6.
MARGIN_KB = 3_000
# Of each language: without an event loop (0 tasks) and with, or with threads.
TASKS = {"python": (0, 50), "node": (50,), "c": (0, 16), "rust": (0, 50)}


@dataclass(frozen=True)
class Held:
    """What a process holds at a moment."""

    descriptors: int
    threads: int
    memory_kb: int


class Life(Running):
    """A running `life` program."""

    def __init__(self, workshop: Workshop, language: str, url: str, spec: str, tasks: int) -> None:
        recipe = workshop.recipe(language, "life")
        # A small nursery: else V8 takes 20 MB more as it finds that a program is busy.
        small = {"NODE_OPTIONS": "--max-semi-space-size=1"}
        super().__init__(recipe.line(url, spec, str(tasks)), {**recipe.environment(), **small})

    def held(self) -> Held:
        at = Path(f"/proc/{self.pid}")
        status = dict(line.split(":", 1) for line in (at / "status").read_text().splitlines())
        descriptors = len(list((at / "fd").iterdir()))
        return Held(descriptors, int(status["Threads"]), int(status["RssAnon"].split()[0]))

    def settled(self, most: Held) -> Held:
        """What it holds once it holds no more descriptors and threads than `most`, or after a while."""
        # A thread that connected aside is kept for ten seconds.
        until = time.monotonic() + 15
        while time.monotonic() < until:
            held = self.held()
            if held.descriptors <= most.descriptors and held.threads <= most.threads:
                break
            time.sleep(0.1)
        return held


def cases() -> list[tuple[str, int]]:
    return [(language, tasks) for language, each in TASKS.items() for tasks in each]


def judge(what: str, who: str, early: Held, late: Held) -> None:
    table(
        f"what a process holds, before and after (memory: {MARGIN_KB} kB more at most)",
        *("what", "process", "descriptors", "threads", "memory kB"),
    ).row(
        *(what, who),
        f"{early.descriptors} -> {late.descriptors}",
        f"{early.threads} -> {late.threads}",
        f"{early.memory_kb} -> {late.memory_kb}",
    )
    assert late.descriptors <= early.descriptors
    assert late.threads <= early.threads
    assert late.memory_kb <= early.memory_kb + MARGIN_KB


RUNS = {
    "memory": "10^4 to 10^6 decisions in memory",
    "refused": "10^4 to 10^6 remembered refusals",
    "redis": "10^4 to 10^5 decisions of Redis",
}


@pytest.mark.parametrize(
    ("language", "tasks", "store"),
    [
        *(("python", 0, "memory"), ("python", 50, "refused"), ("python", 50, "redis")),
        *(("node", 50, "memory"), ("node", 50, "refused"), ("node", 50, "redis")),
        *(("c", 0, "memory"), ("c", 16, "refused"), ("c", 16, "redis")),
        *(("rust", 0, "memory"), ("rust", 50, "refused"), ("rust", 50, "redis")),
    ],
)
def test_a_long_run_holds_no_more(
    workshop: Workshop, redis: RedisServer, language: str, tasks: int, store: str
) -> None:
    url = "memory://" if store == "memory" else redis.url
    spec = "1/h" if store == "refused" else "100/s"
    more = 90_000 if store == "redis" else 990_000
    with Life(workshop, language, url, spec, tasks) as life:
        # A lone call asks for the second connection of plain calls; a remembered refusal asks for nothing.
        for _ in range(3):
            life.ask("decide 1")
            time.sleep(0.12)
        life.ask("decide 10000")
        early = life.held()
        allowed = life.ask(f"decide {more}")["allowed"]
        late = life.settled(early)
    assert (allowed == 0) == (store == "refused")
    judge(RUNS[store], f"{language}, {tasks} tasks", early, late)


# In C both ways are the same here, and in Rust the blocking one is that of C.
@pytest.mark.parametrize(
    ("language", "tasks"), [("python", 0), ("python", 50), ("node", 50), ("c", 0), ("rust", 50)]
)
def test_limiters_come_and_go(workshop: Workshop, redis: RedisServer, language: str, tasks: int) -> None:
    with Life(workshop, language, redis.url, "100/s", tasks) as life:
        # As many at first, since what a collector has not found yet makes the process grow once.
        assert life.ask("limiters 200") == {"allowed": 200}
        time.sleep(0.5)
        early = life.held()
        assert life.ask("limiters 200") == {"allowed": 200}
        late = life.settled(early)
    judge("200 limiters opened, used, and closed or dropped", f"{language}, {tasks} tasks", early, late)
    until = time.monotonic() + 10
    while (clients := int(redis.command("CLIENT", "LIST").count("id="))) > 1 and time.monotonic() < until:
        time.sleep(0.1)
    assert clients == 1, "connections were left behind"


@pytest.mark.parametrize(("language", "tasks"), cases())
def test_a_limiter_is_closed_under_its_calls(
    workshop: Workshop, redis: RedisServer, language: str, tasks: int
) -> None:
    """Every call is answered: by a decision, or as closed."""
    with Life(workshop, language, redis.url, "100/s", tasks) as life:
        for _ in range(5):
            outcomes = life.ask("close")
            assert outcomes.pop("wrong", 0) == 0
            assert outcomes["closed"] == (tasks if tasks and language != "c" else 20)
            assert set(outcomes) <= {"closed", "redis", "outage", "deny-cache", "allowed"}, outcomes


@pytest.mark.parametrize("language", ["python", "c"])
def test_hundreds_of_threads_on_one_limiter(workshop: Workshop, redis: RedisServer, language: str) -> None:
    with Life(workshop, language, redis.url, "fixed-window 2000/h", 0) as life:
        life.ask("decide 1000")
        time.sleep(0.3)
        early = life.held()
        assert life.ask("threads 300") == {"calls": 3000, "allowed": 2000}
        late = life.settled(early)
    judge("300 threads on one limiter", language, early, late)


def test_fifty_forks_in_c(workshop: Workshop, redis: RedisServer) -> None:
    with Life(workshop, "c", redis.url, "fixed-window 100000/h", 0) as life:
        life.ask("decide 100")
        early = life.held()
        assert life.ask("forks 50") == {"well": 50}
        life.ask("decide 100")
        judge("fifty forks from a warm process", "c", early, life.settled(early))


@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_fifty_children_in_python(python: Path, redis: RedisServer, way: str) -> None:
    line = [str(python), str(SOURCES / "fifty.py"), redis.url, way]
    done = subprocess.run(line, capture_output=True, text=True, timeout=SECONDS)
    assert (done.returncode, done.stderr) == (0, ""), done
    seen = json.loads(done.stdout)
    assert seen["codes"] == [0] * 50
    early, late = seen["counted"]
    # One may be gone: a thread that connected aside is kept for ten seconds.
    assert late[0] <= early[0] and late[1] <= early[1], "descriptors or threads were left behind"
    # Ten of each child, and of the parent at first and beside each five.
    assert seen["left"] == 100_000 - 10 * (50 + 11)


def test_node_with_four_workers(workshop: Workshop, redis: RedisServer) -> None:
    with Life(workshop, "node", redis.url, "fixed-window 300/h", 10) as life:
        assert life.ask("together 4") == {"allowed": 300, "codes": [0] * 4}
        life.ask("workers 4")
        early = life.held()
        assert life.ask("workers 16") == {"terminated": 16}
        late = life.settled(early)
    judge("16 workers terminated with calls in flight", "node", early, late)


@contextlib.contextmanager
def serving(python: Path, redis: RedisServer, spec: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """gunicorn with four preloaded workers, and its address."""
    port = free_port()
    line = [str(python), "-m", "gunicorn", "--preload", "--workers", "4", "--bind", f"{LOOPBACK}:{port}"]
    environment = {**os.environ, "LIMITER_URL": redis.url, "LIMITER_SPEC": spec, "PYTHONPATH": str(SOURCES)}
    server = subprocess.Popen(
        [*line, "wsgi_app:app"], env=environment, stderr=subprocess.PIPE, preexec_fn=die_with_parent
    )
    address = f"http://{LOOPBACK}:{port}/"
    try:
        yield server, address
    finally:
        server.terminate()
        try:
            server.wait(timeout=30)
        finally:
            server.kill()
            assert server.stderr
            server.stderr.close()


def get(address: str) -> dict[str, Any]:
    with urllib.request.urlopen(address, timeout=30) as answer:
        seen: dict[str, Any] = json.loads(answer.read())
    return seen


def when_up(address: str) -> dict[str, Any]:
    until = time.monotonic() + 30
    while True:
        try:
            return get(address)
        except OSError:
            assert time.monotonic() < until, "gunicorn does not answer"
            time.sleep(0.1)


def test_gunicorn_with_four_preloaded_workers(
    workshop: Workshop, redis: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    constraints = artefacts.ROOT / "tests" / "constraints.txt"
    directory = tmp_path_factory.mktemp("gunicorn") / "venv"
    python = artefacts.python_env(directory, "gunicorn", f"--constraint={constraints}")
    with serving(python, redis, "fixed-window 300/h") as (server, address):
        answers = [when_up(address)]
        with ThreadPoolExecutor(8) as pool:
            answers += pool.map(get, [address] * 399)
            by_worker = Counter(answer["pid"] for answer in answers)
            # One dies, and gunicorn forks another from its warm master.
            os.kill(min(by_worker), signal.SIGKILL)
            time.sleep(1)
            later = list(pool.map(get, [address] * 100))
        server.terminate()
        log = server.stderr.read().decode() if server.stderr else ""
        assert server.wait(timeout=30) == 0
    assert len(by_worker) == 4
    assert {answer["first"] for answer in answers + later} == {"redis"}
    assert {answer["source"] for answer in answers + later} <= {"redis", "deny-cache"}
    # One more was admitted when the application was loaded.
    assert sum(answer["allowed"] for answer in answers + later) == 299
    assert len({answer["pid"] for answer in later}) == 4
    assert {answer["pid"] for answer in later} - set(by_worker)
    assert "Traceback" not in log and "panicked" not in log, log
