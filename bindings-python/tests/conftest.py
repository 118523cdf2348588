"""Where limits are kept in a test: in memory, and in the Redis of SLUICEGATE_TEST_REDIS if that is set."""

from __future__ import annotations

import os
import uuid

import pytest

REDIS = os.environ.get("SLUICEGATE_TEST_REDIS")
STORES = ["memory", "redis"] if REDIS else ["memory"]


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> str:
    """The store's word, which is also the source of its decisions."""
    word: str = request.param
    return word


@pytest.fixture
def url(store: str) -> str:
    return REDIS if store == "redis" and REDIS else "memory://"


@pytest.fixture
def prefix() -> str:
    """A prefix that no other test has."""
    return f"test-{uuid.uuid4().hex}"


@pytest.fixture
def redis_url() -> str:
    if not REDIS:
        pytest.skip("SLUICEGATE_TEST_REDIS is not set")
    return REDIS
