"""The book's reference says what the library does: its tables are held against the installed parts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import artefacts
import pytest
from redis_servers import RedisServer
from snippets import DOCS, table

REFERENCE = DOCS / "reference"
CORE = artefacts.ROOT / "core" / "src"
TYPES = (artefacts.ROOT / "bindings-node" / "index.d.ts").read_text()
HEADER = (artefacts.ROOT / "bindings-c" / "include" / "sluicegate.h").read_text()

# Reads a list of [expression, ...] and answers each with its value, or the error as text.
ASK = """
import json, sys
import sluicegate
from sluicegate import *
limiter = Limiter()
spec = lambda text: limiter.limit("a", text).spec
public = lambda kind: sorted(name for name in dir(kind) if not name.startswith("_"))
def ask(expression):
    try:
        return eval(expression)
    except sluicegate.Error as error:
        return "error: " + str(error)
print(json.dumps([ask(expression) for expression in json.load(sys.stdin)]))
"""

Ask = Callable[[Sequence[str]], list[Any]]


@pytest.fixture(scope="module")
def ask(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """Evaluates expressions where the wheel is installed."""
    directory = tmp_path_factory.mktemp("ask")
    (directory / "ask.py").write_text(ASK)

    def answers(expressions: Sequence[str]) -> list[Any]:
        (directory / "questions").write_text(json.dumps(list(expressions)))
        printed = artefacts.run(["sh", "-c", f"'{python}' ask.py < questions"], cwd=directory)
        found: list[Any] = json.loads(printed)
        assert len(found) == len(expressions)
        return found

    return answers


def specs(ask: Ask, texts: Sequence[str]) -> list[str]:
    """Each in its canonical text, or what is wrong with it."""
    return ask([f"spec({text!r})" for text in texts])


def refused(answer: str) -> bool:
    return answer.startswith("error: ")


def body(text: str, start: str, end: str = "\n}") -> str:
    assert text.count(start) == 1, start
    return text.partition(start)[2].partition(end)[0]


def interface(name: str) -> set[str]:
    """The fields of an interface of the Node package."""
    return set(re.findall(r"^  (\w+)\??:", body(TYPES, f"export interface {name} {{"), flags=re.MULTILINE))


def words(name: str) -> set[str]:
    """The values of a type of the Node package that is one of some words."""
    return set(re.findall(r"'([^']+)'", re.split(r"\n\n", TYPES.partition(f"export type {name} =")[2])[0]))


def struct(name: str) -> set[str]:
    """The fields of a struct of the C header."""
    return set(
        re.findall(r"^    [\w *]+?\**(\w+)(?:\[\d+\])?;$", body(HEADER, f"typedef struct {name} {{"), re.M)
    )


def test_algorithms_and_their_options(ask: Ask) -> None:
    rows = table(REFERENCE / "spec.md", "Algorithms and their options")
    (message,) = specs(ask, ["nonsense 5/s"])
    assert message.rpartition("one of ")[2].split(", ") == [name for name, _ in rows]
    forms = {"burst": "burst 2", "queue": "queue 2", "align": "align", "buckets": "buckets 2"}
    cases = []
    for name, options in rows:
        rate = "concurrency 5 ttl 1s" if name == "concurrency" else f"{name} 5/s"
        cases += [(f"{rate} {form}", option in options.split(", ")) for option, form in forms.items()]
        cases.append((rate, True))
    for (text, fits), answer in zip(cases, specs(ask, [text for text, _ in cases]), strict=True):
        assert fits != refused(answer), f"{text}: {answer}"


def test_ranges_and_defaults_of_specs(ask: Ask) -> None:
    for what, example, least, most, default in table(REFERENCE / "spec.md", "Ranges"):
        numbers = [int(least) - 1, int(least), int(most), int(most) + 1]
        below, low, high, above = specs(ask, [example.replace("N", str(number)) for number in numbers])
        assert refused(below) and refused(above), what
        assert not refused(low) and not refused(high), (what, low, high)
        if default in ("the count", "10"):
            plain = re.sub(r" \w+ N", "", example)
            number = "1" if default == "the count" else default
            said, left_out, other = specs(
                ask, [example.replace("N", number), plain, example.replace("N", "7")]
            )
            assert said == left_out != other, what


def test_how_long_a_spec_may_be(ask: Ask) -> None:
    text = (REFERENCE / "spec.md").read_text()
    assert "at most 8 limits and at most 1024 bytes" in text
    eight = "; ".join(["5/s"] * 8)
    long = "5/s".ljust(1024)
    good, many, full, overlong = specs(ask, [eight, f"{eight}; 5/s", long, f"{long} "])
    assert not refused(good) and not refused(full)
    assert refused(many) and refused(overlong)


def test_units_of_time(ask: Ask) -> None:
    rows = table(REFERENCE / "spec.md", "Units of time")
    names = {name: cells[1].split(", ")[0] for cells in rows for name in cells[1].split(", ")}
    source = body((CORE / "spec_text.rs").read_text(), "const UNITS: [", "];")
    assert names.keys() == set(re.findall(r'"(\w+)"', source))
    answers = specs(ask, [f"7/7{name}" for name in names])
    assert answers == [f"7/7{unit}" for unit in names.values()]


def test_canonical_texts(ask: Ask) -> None:
    rows = table(REFERENCE / "spec.md", "Canonical text")
    assert specs(ask, [written for written, _ in rows]) == [canonical for _, canonical in rows]


def test_verbs(ask: Ask) -> None:
    rows = table(REFERENCE / "verbs.md", "Verbs")
    of_limit, of_limiter = ask(["public(Limit)", "public(Limiter)"])
    rust = (CORE / "limiter.rs").read_text()
    documented = set()
    for _, python, node, c, core in rows:
        name = python.partition("(")[0]
        documented.add(name)
        assert name in of_limit or name in of_limiter, python
        assert re.search(rf"^  {node.partition('(')[0]}\(", TYPES, flags=re.MULTILINE), node
        assert f"sg_result {c}(" in HEADER, c
        assert re.search(rf"pub async fn {core.partition('(')[0]}\b", rust), core
        assert core.partition("(")[0] == name
        assert f"pub fn {name}_blocking" in rust
    assert documented == set(re.findall(r"pub async fn (\w+)", rust)) - {"call"}
    signatures = ask([f"Limit.{row[1].partition('(')[0]}.__text_signature__" for row in rows[:-1]])
    for row, signature in zip(rows, signatures, strict=False):
        assert f"($self, {row[1].partition('(')[2]}" == signature


def test_fields_of_a_decision(ask: Ask) -> None:
    rows = table(REFERENCE / "decisions.md", "Fields")
    _, python, node, c, rust = (set(column) for column in zip(*rows, strict=True))
    assert python == set(ask(["public(Decision)"])[0])
    assert node == interface("Decision")
    assert c == struct("sg_decision")
    source = body((CORE / "decision.rs").read_text(), "pub struct Decision {")
    assert rust == set(re.findall(r"pub (\w+):", source))


def test_sources() -> None:
    assert {row[0] for row in table(REFERENCE / "decisions.md", "Sources")} == words("Source")


def test_errors(ask: Ask) -> None:
    rows = table(REFERENCE / "errors.md", "Errors")
    _, _, python, node, c, rust = (set(column) for column in zip(*rows, strict=True))
    assert python | {"RateLimited"} == set(ask(["[kind.__name__ for kind in Error.__subclasses__()]"])[0])
    assert node | {"RATE_LIMITED"} == words("ErrorCode")
    assert c | {"SG_ERR_FULL"} == set(re.findall(r"^    (SG_ERR_\w+) = ", HEADER, flags=re.MULTILINE))
    source = body((CORE / "error.rs").read_text(), "pub enum ErrorKind {")
    assert rust == set(re.findall(r"^    (\w+) = ", source, flags=re.MULTILINE))


def test_options_are_all_there(ask: Ask) -> None:
    rows = table(REFERENCE / "options.md", "Options")
    python, node, c, rust = (set(column) for column in list(zip(*rows, strict=True))[:4])
    (signature,) = ask(["Limiter.__text_signature__"])
    assert {name for name in python if " " not in name} == set(re.findall(r"(\w+)=", signature)) - {"url"}
    assert node == interface("LimiterOptions")
    assert c == struct("sg_options") - {"struct_size", "user_data"}
    source = (CORE / "config.rs").read_text()
    assert rust == set(re.findall(r"pub fn (\w+)\(mut self", source)) - {"url"}


def test_defaults_and_ranges_of_options(ask: Ask) -> None:
    defaults = body((CORE / "config.rs").read_text(), "impl Default for Builder {")
    written = {"sg": '"sg"', "100 ms": "Duration::from_millis(100)", "share": "OnOutage::Share"}
    rows = {row[0]: row for row in table(REFERENCE / "options.md", "Options")}
    for name in ("prefix", "timeout", "on_outage", "deny_cache", "max_keys", "max_waiting"):
        default = rows[name][4]
        expected = written.get(default) or f"{int(default):_}"
        assert f"{name}: {expected}" in defaults, name
    assert rows["timeout"][5] == "1 ms to 60 s" and rows["deny_cache"][5] == "0 (off) to 60 s"
    assert rows["prefix"][5] == "1 to 128 bytes, no braces, no spaces"
    modes = rows["on_outage"][5].split(", ")
    assert set(modes) == words("OnOutage")
    low, high = rows["max_keys"][5].split(" to ")
    good = [
        "timeout=0.001",
        "timeout=60",
        "deny_cache=0",
        "deny_cache=60",
        f"max_keys={low}",
        f"max_keys={high}",
        f"max_waiting={low}",
        f"max_waiting={high}",
    ]
    good += ["prefix='a'", "prefix='a' * 128", *(f"on_outage={mode!r}" for mode in modes)]
    bad = ["timeout=0.0009", "timeout=60.1", "deny_cache=60.1", f"max_keys={int(low) - 1}", "max_waiting=63"]
    bad += [f"max_keys={int(high) + 1}", "prefix=''", "prefix='a' * 129", "prefix='a b'", "prefix='{'"]
    for option, answer in zip(good, ask([f"Limiter({each}) and 'fine'" for each in good]), strict=True):
        assert answer == "fine", option
    for option, answer in zip(bad, ask([f"Limiter({each}) and 'fine'" for each in bad]), strict=True):
        assert refused(answer), option


def test_what_to_watch(ask: Ask) -> None:
    rows = table(DOCS / "watching.md", "status()")
    assert {row[0] for row in rows} == set(ask(["public(Status)"])[0])
    assert {row[1] for row in rows} == interface("Status")
    assert {row[0] for row in table(DOCS / "watching.md", "Events")} == words("EventKind")


def test_bytes_of_a_key(python: Path, redis: RedisServer, tmp_path: Path) -> None:
    rows = table(DOCS / "sizing.md", "Memory in Redis")
    for limit, calls, documented in rows:
        redis.command("FLUSHALL")
        program = (
            f"import sluicegate; limit = sluicegate.Limiter({redis.url!r}).limit('login', {limit!r});"
            f"assert all(limit.try_acquire('user:12345678').source == 'redis' for _ in range({calls}))"
        )
        artefacts.run([python, "-c", program], cwd=tmp_path)
        (key,) = redis.command("KEYS", "sg:*:login:*").split()
        measured = int(redis.command("MEMORY", "USAGE", key))
        # Allocators differ; a page that says too much is as wrong as one that says too little.
        assert 0.7 * int(documented) <= measured <= 1.1 * int(documented), limit
