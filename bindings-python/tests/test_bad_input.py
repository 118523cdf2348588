"""Bad input gets a clear error that names what is allowed, or a right decision; never a crash."""

from __future__ import annotations

import math
from typing import Any

import pytest

import sluicegate
from sluicegate import ArgumentError, ConfigError, Limit, Limiter, SpecError, UnsupportedError

DAYS_366 = 366 * 86_400


@pytest.fixture
def limiter() -> Limiter:
    return Limiter()


@pytest.fixture
def limit(limiter: Limiter) -> Limit:
    return limiter.limit("bad", "10/h")


NONSENSE = ["100/", "0/s", "5/fortnight", "-1/s", "", " ", "10/s burst 0"]
LONG = [pytest.param("x" * 1_000_000, id="1 MB"), pytest.param("1/s;" * 300_000, id="300,000 limits")]


@pytest.mark.parametrize("spec", [*NONSENSE, *LONG])
def test_specs(limiter: Limiter, spec: str) -> None:
    with pytest.raises(SpecError, match=r"expected|must be|at most") as raised:
        limiter.limit("bad", spec)
    assert isinstance(raised.value, ValueError)
    assert len(str(raised.value)) < 500


@pytest.mark.parametrize("spec", [None, 5, b"10/s"])
def test_a_spec_is_text(limiter: Limiter, spec: Any) -> None:
    with pytest.raises(TypeError):
        limiter.limit("bad", spec)


@pytest.mark.parametrize("name", ["", "x" * 129, "a\nb", "lone \ud800"])
def test_names(limiter: Limiter, name: str) -> None:
    with pytest.raises(ArgumentError):
        limiter.limit(name, "10/s")


WRONG = [-1, 1.5, math.nan, math.inf, -math.inf, 2**53 + 1, 2**64, -(2**70)]


@pytest.mark.parametrize("cost", [*WRONG, pytest.param(10**5000, id="10**5000")])
@pytest.mark.parametrize("verb", ["try_acquire", "acquire", "reserve", "refund"])
def test_costs(limit: Limit, verb: str, cost: Any) -> None:
    with pytest.raises(ValueError, match="cost must be a whole number from 0 to 9007199254740992") as raised:
        getattr(limit, verb)("k", cost)
    assert isinstance(raised.value, ArgumentError)
    assert limit.peek("k").remaining == 10


@pytest.mark.parametrize("cost", [None, "1", [1], 1 + 0j])
def test_a_cost_is_a_number(limit: Limit, cost: Any) -> None:
    with pytest.raises(TypeError, match="cost must be int, not"):
        limit.try_acquire("k", cost)


def test_costs_that_are_right(limit: Limit) -> None:
    assert limit.try_acquire("k", 0)
    assert limit.try_acquire("k", True).remaining == 9
    whole: Any = 2.0
    assert limit.try_acquire("k", whole).remaining == 7
    never = limit.try_acquire("k", 2**53)
    assert not never
    assert never.retry_after is None
    assert never.remaining == 7


@pytest.mark.parametrize("key", ["", b"", "lone \ud800", "\udcff"])
@pytest.mark.parametrize("verb", ["try_acquire", "acquire", "reserve", "peek", "refund", "reset"])
def test_keys(limit: Limit, verb: str, key: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"key must not be empty|lone surrogate") as raised:
        getattr(limit, verb)(key)
    assert isinstance(raised.value, ArgumentError)


@pytest.mark.parametrize("key", [None, 42, 1.5, ["k"], bytearray(b"k")])
def test_a_key_is_text_or_bytes(limit: Limit, key: Any) -> None:
    with pytest.raises(TypeError, match="key must be str or bytes, not"):
        limit.try_acquire(key)


def test_keys_that_are_odd_but_right(store: str, url: str, prefix: str) -> None:
    limiter = Limiter(url, prefix=prefix, timeout=5.0)
    limit = limiter.limit("odd", "2/h")
    keys: list[str | bytes] = ["k" * 1_000_000, "nul\0", "{braces}", "}{", "🚰", " ", "%7B", "a:b"]
    keys += [b"\xff\xfe", b"\0"]
    for key in keys:
        first, second, third = (limit.try_acquire(key) for _ in range(3))
        assert (first.remaining, second.remaining, third.allowed) == (1, 0, False), key
        assert first.source == store
    assert not limit.try_acquire("🚰".encode())  # the same key as its text


@pytest.mark.parametrize("wait", [-1, -0.001, math.nan, math.inf, DAYS_366 + 1, 10**400])
def test_waits(limiter: Limiter, limit: Limit, wait: float) -> None:
    permits = limiter.limit("permits", "concurrency 1 ttl 10s")
    with pytest.raises(ArgumentError, match="timeout must be 0 to 31622400 seconds"):
        limit.acquire("k", timeout=wait)
    with pytest.raises(ArgumentError, match="max_wait must be 0 to 31622400 seconds"):
        limit.reserve("k", max_wait=wait)
    with pytest.raises(ArgumentError, match="timeout must be 0 to 31622400 seconds"):
        permits.hold("k", timeout=wait)
    with pytest.raises(TypeError, match="seconds must be float"):
        limit.acquire("k", timeout="1")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options",
    [
        {"url": "foo://host"},
        {"url": ""},
        {"url": "redis://"},
        {"prefix": ""},
        {"prefix": "a{b"},
        {"prefix": "x" * 129},
        {"timeout": 0},
        {"timeout": -1},
        {"timeout": math.nan},
        {"timeout": 61},
        {"timeout": 10**400},
        {"deny_cache": -0.1},
        {"deny_cache": 61.0},
        {"max_keys": 0},
        {"max_keys": -1},
        {"max_keys": 2**100},
        {"max_waiting": 63},
        {"max_waiting": 2**100},
        {"on_outage": "panic"},
        {"on_outage": ""},
    ],
)
def test_options(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must|can't be read|expected") as raised:
        Limiter(**options)
    assert isinstance(raised.value, ConfigError)


@pytest.mark.parametrize(
    "options",
    [
        {"url": 1},
        {"timeout": "1"},
        {"max_keys": 1.5},
        {"max_waiting": "64"},
        {"clock": 5},
        {"on_outage": 1},
        {"speed": 1},
    ],
)
def test_types_of_options(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        Limiter(**options)


def test_an_outage_mode_of_a_limit(limiter: Limiter) -> None:
    assert limiter.limit("mode", "1/s", on_outage="deny").name == "mode"
    with pytest.raises(ConfigError, match="share, allow, deny, raise"):
        limiter.limit("mode", "1/s", on_outage="never")  # type: ignore[arg-type]


def test_a_password_stays_secret() -> None:
    secret = "hunter2"
    with pytest.raises(ConfigError) as raised:
        Limiter(f"redis://user:{secret}@host:notaport")
    assert secret not in str(raised.value)


@pytest.mark.parametrize("entries", [[], [("not a limit", "k", 1)], [1], None, "k", [("short",)]])
def test_entries(limiter: Limiter, entries: Any) -> None:
    with pytest.raises((ArgumentError, TypeError, ValueError)):
        limiter.try_acquire_all(entries)


def test_entries_that_clash(limiter: Limiter, limit: Limit) -> None:
    with pytest.raises(ArgumentError, match="twice"):
        limiter.try_acquire_all([(limit, "k", 1), (limit, b"k", 1)])
    with pytest.raises(ArgumentError, match="cost must be a whole number"):
        limiter.try_acquire_all([(limit, "k", -1)])
    with pytest.raises(ArgumentError, match="key must not be empty"):
        limiter.try_acquire_all([(limit, "", 1)])
    with pytest.raises(ArgumentError, match="another limiter"):
        Limiter().try_acquire_all([(limit, "k", 1)])
    assert limit.peek("k").remaining == 10


def test_verbs_without_a_meaning(limiter: Limiter, limit: Limit) -> None:
    permits = limiter.limit("permits", "concurrency 1 ttl 10s")
    with pytest.raises(UnsupportedError, match="hold"):
        permits.try_acquire("k")
    with pytest.raises(UnsupportedError, match="hold"):
        limit.hold("k")
    with pytest.raises(UnsupportedError, match="reserve"):
        limiter.limit("window", "fixed-window 1/s").reserve("k")


@pytest.mark.parametrize("seconds", [-1.0, math.nan, math.inf, 1e300])
def test_clocks(seconds: float) -> None:
    with pytest.raises(ArgumentError, match="start must be"):
        sluicegate.ManualClock(seconds)
    clock = sluicegate.ManualClock()
    with pytest.raises(ArgumentError, match="seconds must be"):
        clock.set(seconds)
    with pytest.raises(ArgumentError, match="seconds must be"):
        clock.advance(seconds)
    assert clock.now() == 1e9


def test_closed(limiter: Limiter, limit: Limit) -> None:
    limiter.close()
    limiter.close()
    with pytest.raises(sluicegate.ClosedError):
        limit.try_acquire("k")
    with pytest.raises(sluicegate.ClosedError):
        limiter.try_acquire_all([(limit, "k", 1)])
