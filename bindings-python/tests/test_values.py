"""What comes back: decisions, permits, a limiter's status; and the words and errors they are made of."""

from __future__ import annotations

import copy
import pickle
import time
import typing

import pytest

import sluicegate
import sluicegate.aio
from sluicegate import Decision, Limiter, ManualClock, _errors, _sluicegate, _words

FIELDS = ["allowed", "limit", "remaining", "retry_after", "reset_after", "wait", "source", "rule"]


def decisions() -> list[Decision]:
    """One of each kind: allowed, refused, never, with a wait."""
    limit = Limiter(clock=ManualClock()).limit("values", "1/m burst 2")
    return [
        limit.try_acquire("k", 2),
        limit.try_acquire("k"),
        limit.try_acquire("k", 3),
        limit.reserve("k", max_wait=90),
    ]


def test_a_decision_has_its_fields() -> None:
    allowed, refused, never, later = decisions()
    said = [tuple(getattr(decision, field) for field in FIELDS) for decision in (allowed, refused, never)]
    assert said == [
        (True, 2, 0, None, 120.0, 0.0, "memory", 0),
        (False, 2, 0, 60.0, 120.0, 0.0, "memory", 0),
        (False, 2, 0, None, 120.0, 0.0, "memory", 0),
    ]
    assert later.allowed
    assert later.wait == 60.0
    assert [bool(decision) for decision in (allowed, refused, never, later)] == [True, False, False, True]


def test_a_decision_is_a_value() -> None:
    for index, decision in enumerate(decisions()):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            again = pickle.loads(pickle.dumps(decision, protocol))
            assert again == decision
            assert hash(again) == hash(decision)
            assert [getattr(again, field) for field in FIELDS] == [
                getattr(decision, field) for field in FIELDS
            ]
        assert copy.deepcopy(decision) == decision
        others = [other for number, other in enumerate(decisions()) if number != index]
        assert decision not in others
        assert decision != "a decision"
        with pytest.raises(AttributeError):
            decision.allowed = True  # type: ignore[misc]


def test_a_decision_prints_its_fields() -> None:
    allowed, refused, *_ = decisions()
    assert repr(allowed) == (
        "Decision(allowed=True, limit=2, remaining=0, retry_after=None, reset_after=120.0, wait=0.0, "
        "source='memory', rule=0)"
    )
    assert "retry_after=60.0" in repr(refused)


def test_a_decision_of_its_own_making() -> None:
    with pytest.raises(TypeError):
        Decision()
    with pytest.raises(ValueError, match="no such source"):
        Decision._restore(True, 1, 0, None, 0, 0, "moon", 0)


def test_a_limit_says_what_it_is() -> None:
    limit = Limiter().limit("login", "  100 PER second   Burst 200 ")
    assert (limit.name, limit.spec) == ("login", "100/s burst 200")
    assert Limiter().limit("again", limit.spec).spec == limit.spec
    assert "login" in repr(limit)


def test_status() -> None:
    before = time.time()
    limiter = Limiter()
    status = limiter.status()
    assert (status.state, status.processes, status.rank, status.last_error) == ("up", 1, 0, None)
    assert before - 1 < status.since < time.time() + 1
    assert (status.local_keys, status.refused_full, status.deny_cache_keys) == (0, 0, 0)
    limiter.limit("n", "1/s").try_acquire("k")
    assert limiter.status().local_keys == 1
    assert "state='up'" in repr(status)
    with limiter:
        pass
    assert limiter.status().state == "closed"


def test_full_tables_refuse_new_keys() -> None:
    limiter = Limiter(max_keys=64, clock=ManualClock())
    limit = limiter.limit("full", "1/h")
    admitted = sum(bool(limit.try_acquire(f"{number}")) for number in range(200))
    assert admitted <= 64 * 4
    assert limiter.status().refused_full == 200 - admitted


def test_permits() -> None:
    limit = Limiter().limit("permits", "concurrency 2 ttl 10s")
    with limit.hold("k") as decision, limit.hold("k") as second:
        assert decision
        assert (second.limit, second.remaining) == (2, 0)
        refused = limit.hold("k")
        assert not refused.decision
        assert refused.released
        with refused as third:
            assert not third
    permit = limit.hold("k", timeout=1)
    assert not permit.released
    assert limit.peek("k").remaining == 1
    permit.release()
    permit.release()
    assert permit.released
    assert limit.peek("k").remaining == 2


def test_a_permit_is_given_back_when_nothing_refers_to_it() -> None:
    limit = Limiter().limit("permits", "concurrency 1 ttl 1h")
    permit = limit.hold("k")
    assert permit.decision
    del permit
    assert limit.hold("k").decision


def test_a_permit_is_given_back_when_the_body_raises() -> None:
    limit = Limiter().limit("permits", "concurrency 1 ttl 1h")
    with pytest.raises(KeyError), limit.hold("k"):
        raise KeyError
    assert limit.peek("k").remaining == 1


def test_a_manual_clock() -> None:
    clock = ManualClock()
    assert clock.now() == 1_000_000_000.0
    clock.advance(0.000001)
    assert clock.now() == 1_000_000_000.000001
    clock.set(1_700_000_000.123457)
    assert clock.now() == 1_700_000_000.123457
    clock.set(0)
    assert clock.now() == 0
    assert ManualClock(5.5).now() == 5.5
    assert repr(ManualClock(5)) == "ManualClock(5.0)"


@pytest.mark.parametrize("kind", _sluicegate._words()["ErrorKind"])
def test_every_kind_of_error_has_a_class(kind: str) -> None:
    name = f"{kind.capitalize()}Error"
    with pytest.raises(sluicegate.Error) as raised:
        _sluicegate._fail(kind)
    assert type(raised.value) is getattr(sluicegate, name)
    assert type(raised.value) is getattr(sluicegate.aio, name)
    assert str(raised.value) == kind
    assert isinstance(raised.value, ValueError) == (kind in ("spec", "argument", "config"))
    assert type(pickle.loads(pickle.dumps(raised.value))) is type(raised.value)


def test_a_panic_is_an_internal_error() -> None:
    with pytest.raises(sluicegate.InternalError, match="a defect in sluicegate: no such kind"):
        _sluicegate._fail("no such kind")


@pytest.mark.parametrize("alias", ["OnOutage", "Source", "StoreState"])
def test_every_word_is_known_to_type_checkers(alias: str) -> None:
    assert list(typing.get_args(getattr(_words, alias))) == _sluicegate._words()[alias]


@pytest.mark.parametrize("word", _sluicegate._words()["Source"])
def test_every_source(word: str) -> None:
    decision = Decision._restore(True, 1, 0, None, 0, 0, word, 0)
    assert decision.source == word
    assert pickle.loads(pickle.dumps(decision)) == decision


@pytest.mark.parametrize("mode", _sluicegate._words()["OnOutage"])
def test_every_outage_mode(mode: typing.Any) -> None:
    assert Limiter(on_outage=mode).limit("n", "1/s", on_outage=mode).try_acquire("k")


def test_rate_limited_carries_the_decision() -> None:
    refused, never = decisions()[1:3]
    error = sluicegate.RateLimited(refused)
    assert error.decision is refused
    assert str(error) == "over the limit; retry after 60 s"
    assert str(sluicegate.RateLimited(never)) == "over the limit"
    assert pickle.loads(pickle.dumps(error)).decision == refused
    assert {cls.__name__ for cls in _errors.Error.__subclasses__()} <= set(sluicegate.__all__)
