"""What a server needs: header fields, problem details, and who the client is behind proxies."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import sluicegate
from sluicegate import ClientAddress, Limiter, ManualClock, aio

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).resolve().parents[2] / "tests" / "addresses.json").read_text(encoding="utf-8")
)["cases"]


def client(case: dict[str, Any]) -> ClientAddress:
    options = {name: case[name] for name in ("header", "ipv4_prefix", "ipv6_prefix") if name in case}
    return ClientAddress(case["trusted"], **options)


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_client_address(case: dict[str, Any]) -> None:
    if "error_contains" in case:
        with pytest.raises(sluicegate.ConfigError) as caught:
            client(case)
        assert case["error_contains"] in str(caught.value)
        return
    address = client(case)
    assert address.key(case["peer"], case["values"]) == case["key"]
    # Frameworks hand over bytes, or one value; a peer without an address is None.
    values = [value.encode() for value in case["values"]]
    assert address.key(case["peer"] or None, iter(values)) == case["key"]
    if len(values) == 1:
        assert address.key(case["peer"], values[0]) == address.key(case["peer"], case["values"][0])
    assert address.header == case.get("header", "x-forwarded-for").lower()


def test_a_client_address_trusts_nobody_by_default() -> None:
    assert ClientAddress().key("127.0.0.1", "203.0.113.7") == "127.0.0.1"
    assert ClientAddress() == ClientAddress([])
    assert ClientAddress() != ClientAddress(["loopback"])
    assert ClientAddress(["loopback"]).key("127.0.0.1") == "127.0.0.1"


def test_header_values_may_hold_anything() -> None:
    address = ClientAddress(["loopback"])
    headers: list[str | bytes | list[str | bytes]] = [
        b"\xff\xfe",
        "\udcff",
        "\0",
        "x" * 100_000,
        [b"", ""],
    ]
    for header in headers:
        assert address.key("127.0.0.1", header) == "127.0.0.1"
    assert address.key("\udcff", "203.0.113.7") == "unknown"


def test_wrong_types_are_type_errors() -> None:
    wrong: Any = 1
    address = ClientAddress(["loopback"])
    for call in (
        lambda: ClientAddress("loopback"),
        lambda: ClientAddress(wrong),
        lambda: ClientAddress([wrong]),
        lambda: ClientAddress(header=wrong),
        lambda: ClientAddress(ipv6_prefix="64"),  # type: ignore[arg-type]
        lambda: address.key(wrong),
        lambda: address.key("127.0.0.1", wrong),
        lambda: address.key("127.0.0.1", [wrong]),
        lambda: Limiter().limit("a", "1/s").http_headers(wrong),
        lambda: Limiter().http_headers([(wrong, wrong)]),
    ):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(sluicegate.ConfigError, match="ipv6_prefix must be 1 to 128"):
        ClientAddress(ipv6_prefix=2**70)


def test_header_fields_of_a_decision() -> None:
    limit = Limiter(clock=ManualClock()).limit("login", "1/m burst 2; 1000/d")
    admitted = limit.try_acquire("k")
    assert limit.http_headers(admitted) == {
        "RateLimit-Policy": '"login-1";q=1;w=60;sg-burst=2, "login-2";q=1000;w=86400',
        "RateLimit": '"login-1";r=1;t=60',
    }
    limit.try_acquire("k")
    refused = limit.try_acquire("k")
    assert refused.rule == 0
    headers = limit.http_headers(refused, legacy=True)
    assert headers["Retry-After"] == "60"
    assert headers["X-RateLimit-Limit"] == "2"
    assert headers["X-RateLimit-Remaining"] == "0"
    assert headers["X-RateLimit-Reset"] == "120"
    problem = json.loads(limit.http_problem(refused))
    assert problem["status"] == sluicegate.HTTP_STATUS == 429
    assert problem["violated-policies"] == ["login-1"]
    assert sluicegate.HTTP_PROBLEM_CONTENT_TYPE == "application/problem+json"


def test_header_fields_of_several_limits() -> None:
    limiter = Limiter(clock=ManualClock())
    user, site = limiter.limit("user", "1/m"), limiter.limit("site", "9/s")
    for allowed in (True, False):
        decisions = [user.try_acquire("u"), site.try_acquire("s")]
        assert [bool(decision) for decision in decisions] == [allowed, True]
    pairs = list(zip([user, site], decisions, strict=True))
    headers = limiter.http_headers(pairs)
    assert headers["RateLimit"] == '"user";r=0;t=60, "site";r=7;t=1'
    assert headers["Retry-After"] == "60"
    assert json.loads(limiter.http_problem(pairs))["violated-policies"] == ["user"]


def test_aio_says_the_same() -> None:
    async def main() -> None:
        async with aio.Limiter(clock=ManualClock()) as limiter:
            limit = limiter.limit("login", "1/m")
            await limit.try_acquire("k")
            refused = await limit.try_acquire("k")
            assert limit.http_headers(refused)["Retry-After"] == "60"
            assert limiter.http_headers([(limit, refused)], legacy=True) == limit.http_headers(
                refused, legacy=True
            )
            assert limiter.http_problem([(limit, refused)]) == limit.http_problem(refused)

    asyncio.run(main())
