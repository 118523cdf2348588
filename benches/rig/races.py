"""Who races against whom, and what is claimed of the outcome.

The races of a group share its claims. All contenders of a race serve a short round each, in an
order that rotates, and this is repeated; a ratio is taken within a round, and the median of these
is what counts. So a load of the machine that comes and goes does as much to the one as to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rig.build import Built
from rig.process import Contender

# By contender: what came of one round.
Round = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Race:
    """Contenders that do the same thing in turn."""

    name: str
    title: str
    contenders: Sequence[Contender]
    # Everybody's time is shown over this one's.
    reference: str
    # Whether `redis-benchmark` runs the first contender's script, and GET, beside it.
    floors: bool = False
    # Whether the calls that Redis gets are counted one by one; only where they are few.
    counted: bool = False


@dataclass(frozen=True)
class Claim:
    """What is to be shown, from one round of one race; it has no value where no peer's round counts."""

    race: str
    text: str
    at_most: bool
    goal: float
    # Of a round, and of that of `peers` which was the fastest over all rounds.
    value: Callable[[Round, str], float]
    peers: Sequence[str] = ()
    unit: str = ""
    # Only ratios are drawn.
    drawn: bool = True


@dataclass(frozen=True)
class Group:
    """One line of what must be shown."""

    name: str
    number: int
    races: Sequence[Race]
    claims: Sequence[Claim] = field(default_factory=tuple)


def counts(round_: Round, name: str) -> bool:
    """Whether it took part, and all its calls were decided as measured."""
    return name in round_ and round_[name]["odd"] == 0


def rate(round_: Round, name: str) -> float:
    one = round_[name]
    return float(one["decisions"] / one["seconds"])


def _time_over(name: str) -> Callable[[Round, str], float]:
    return lambda round_, peer: rate(round_, peer) / rate(round_, name)


def _times_as_fast(round_: Round, peer: str) -> float:
    return rate(round_, "sluicegate") / rate(round_, peer)


def _p99_over(round_: Round, peer: str) -> float:
    return float(round_["sluicegate"]["p99_us"] / round_[peer]["p99_us"])


def _nanoseconds(name: str) -> Callable[[Round, str], float]:
    return lambda round_, _: 1e9 / rate(round_, name)


def _figure(name: str, field_: str) -> Callable[[Round, str], float]:
    return lambda round_, _: float(round_[name][field_])


EVALSHA, GET = "redis-benchmark EVALSHA", "redis-benchmark GET"


def blocking(built: Built, url: str, peers: bool) -> Group:
    program = built.python
    script = built_path("python")
    contenders = [
        Contender("rust", "sluicegate, Rust", [built.rust, "blocking", url]),
        Contender("c", "sluicegate, C", [built.c, url]),
        Contender("python", "sluicegate, Python", [program, script, "sluicegate", "blocking", url]),
    ]
    if peers:
        contenders += [
            Contender(who, label, [program, script, who, "blocking", url], peer=True)
            for who, label in (
                ("limits", "limits, fixed window"),
                ("throttled", "throttled-py, token bucket"),
            )
        ]
    race = Race("blocking", "One caller that blocks, on one key", contenders, EVALSHA, floors=True)
    text = "one blocking caller, {}: time over `redis-benchmark -c 1` with the same EVALSHA"
    goals = {"rust": ("Rust", 1.25), "c": ("C", 1.25), "python": ("Python", 1.35)}
    claims = [
        Claim(race.name, text.format(language), True, goal, _time_over(name), [EVALSHA])
        for name, (language, goal) in goals.items()
    ]
    return Group("blocking", 1, [race], claims)


def asyncio(built: Built, url: str, peers: bool) -> Group:
    program, script = built.python, built_path("python")
    races, claims = [], []
    # The first is its default.
    names = ["limits-coredis", "limits-redispy"]
    for keys, goal, on in ((64, 8.0, "64 keys"), (1, 10.0, "one hot key")):
        labels = {"sluicegate": "sluicegate.aio"}
        if peers:
            labels |= {
                "limits-coredis": "limits.aio on coredis, fixed window",
                "limits-redispy": "limits.aio on redis-py with hiredis, fixed window",
            }
        contenders = [
            Contender(who, label, [program, script, who, f"tasks-{keys}", url], peer=who in names)
            for who, label in labels.items()
        ]
        race = Race(f"asyncio-{keys}", f"asyncio, 64 tasks on {on}", contenders, "sluicegate")
        races.append(race)
        what = f"asyncio, 64 tasks on {on}"
        for peer, among in (("`limits.aio`", names[:1]), ("`limits.aio` on its faster client", names)):
            claims += [
                Claim(race.name, f"{what}: times as fast as {peer}", False, goal, _times_as_fast, among),
                Claim(race.name, f"{what}: p99 over that of {peer}", True, 0.5, _p99_over, among),
            ]
    return Group("asyncio", 2, races, claims)


def node(built: Built, url: str, peers: bool) -> Group:
    races, claims = [], []
    names = ["flexible", "flexible-autopipelining"]
    for keys, goal, on in ((64, 2.0, "64 keys"), (1, 4.0, "one hot key")):
        labels = {"sluicegate": "sluicegate"}
        if peers:
            labels |= {
                "flexible": "rate-limiter-flexible on ioredis",
                "flexible-autopipelining": "rate-limiter-flexible on ioredis, enableAutoPipelining",
            }
        contenders = [
            Contender(who, label, ["node", built.node, who, f"tasks-{keys}", url], peer=who in names)
            for who, label in labels.items()
        ]
        race = Race(f"node-{keys}", f"Node, 64 calls in flight on {on}", contenders, "sluicegate")
        races.append(race)
        text = f"Node, 64 in flight on {on}: times as fast as rate-limiter-flexible"
        claims.append(Claim(race.name, text, False, goal, _times_as_fast, names))
    return Group("node", 3, races, claims)


def rust(built: Built, url: str, peers: bool) -> Group:
    races, claims = [], []
    address = url.removeprefix("redis://")
    labels = {
        "redis_rate": "redis_rate (Go)",
        "redis_rate-autopipeline": "redis_rate (Go) on go-redis's experimental AutoPipeline",
        "go-zero": "go-zero core/limit, token limiter (Go)",
    }
    for keys, goal, on in ((100_000, 2.0, "100,000 keys"), (1, 10.0, "one hot key")):
        contenders = [Contender("sluicegate", "sluicegate, Rust", [built.rust, "tasks", url, str(keys)])]
        if peers and built.go is not None:
            contenders += [
                Contender(who, label, [built.go, who, str(keys), address], one_by_one=True, peer=True)
                for who, label in labels.items()
            ]
        race = Race(f"rust-{keys}", f"256 tasks (goroutines) on {on}", contenders, "sluicegate")
        races.append(race)
        what = f"Rust, 256 tasks on {on}"
        for name, words in (
            ("redis_rate", "redis_rate"),
            ("go-zero", "go-zero's token limiter"),
            ("redis_rate-autopipeline", "redis_rate with AutoPipeline"),
        ):
            text = f"{what}: times as fast as {words}"
            claims.append(Claim(race.name, text, False, goal, _times_as_fast, [name]))
        if keys > 1:
            text = f"{what}: Redis CPU a decision (`INFO commandstats`)"
            cpu = _figure("sluicegate", "script_us")
            claims.append(Claim(race.name, text, True, 3.0, cpu, unit=" us", drawn=False))
    return Group("rust", 4, races, claims)


def flood(built: Built, url: str, peers: bool) -> Group:
    contenders = [
        Contender("rust", "sluicegate, Rust", [built.rust, "flood", url]),
        Contender(
            "python", "sluicegate, Python", [built.python, built_path("python"), "sluicegate", "flood", url]
        ),
        Contender("node", "sluicegate, Node", ["node", built.node, "sluicegate", "flood", url]),
    ]
    if peers:
        label = "rate-limiter-flexible, inMemoryBlockOnConsumed"
        contenders.append(
            Contender("flexible", label, ["node", built.node, "flexible", "flood", url], peer=True)
        )
    race = Race("flood", "A flood of refused calls on one key", contenders, "rust", counted=True)
    claims = []
    for name, language, goal in (
        ("rust", "Rust", 150.0),
        ("python", "Python", 400.0),
        ("node", "Node", 1000.0),
    ):
        text = f"a refused flood, {language}: time a call"
        claims.append(Claim(race.name, text, True, goal, _nanoseconds(name), unit=" ns", drawn=False))
        text = f"a refused flood, {language}: calls a second that Redis sees"
        claims.append(Claim(race.name, text, True, 20.0, _figure(name, "seen_per_s"), drawn=False))
    return Group("flood", 5, [race], claims)


def memory(built: Built, _url: str, peers: bool) -> Group:
    races, claims = [], []
    labels = {
        "dashmap": "governor, DashMap",
        "hashmap": "governor, HashMap",
        "dashmap-foldhash": "governor, DashMap with foldhash",
        "hashmap-foldhash": "governor, HashMap with foldhash",
    }
    for threads in (1, 2):
        contenders = [
            Contender("sluicegate", "sluicegate", [built.rust, "memory", "sluicegate", str(threads)])
        ]
        if peers:
            contenders += [
                Contender(who, label, [built.rust, "memory", who, str(threads)], peer=True)
                for who, label in labels.items()
            ]
        plural = "thread" if threads == 1 else "threads"
        race = Race(
            f"memory-{threads}", f"memory://, 100,000 keys, {threads} {plural}", contenders, "sluicegate"
        )
        races.append(race)
        text = f"memory store, {threads} {plural}: time over governor's, its best map"

        over = _time_over("sluicegate")
        claims.append(Claim(race.name, text, True, 1.2, over, ["dashmap", "hashmap"]))
        text += " and ours' hasher"
        claims.append(Claim(race.name, text, True, 1.2, over, list(labels)))
    return Group("memory", 6, races, claims)


def built_path(language: str) -> str:
    """The contender's source, where the language needs no building."""
    from rig.build import BENCHES  # noqa: PLC0415

    return str(BENCHES / language / "contender.py")


GROUPS: Mapping[str, Callable[[Built, str, bool], Group]] = {
    "blocking": blocking,
    "asyncio": asyncio,
    "node": node,
    "rust": rust,
    "flood": flood,
    "memory": memory,
}
