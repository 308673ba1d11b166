from functools import partial

import pytest

from tests.server.streaming.journals import OpenJournal, memory_journal, redis_journal
from tests.stores import fresh_prefix


@pytest.fixture(params=["memory", "redis"])
def open_journal(request: pytest.FixtureRequest) -> OpenJournal:
    if request.param == "memory":
        return memory_journal
    return partial(redis_journal, request.getfixturevalue("redis_url"), fresh_prefix())


@pytest.fixture
def open_replica(redis_url: str) -> OpenJournal:
    """Return a function that opens a journal on the same Redis each time."""
    return partial(redis_journal, redis_url, fresh_prefix())
