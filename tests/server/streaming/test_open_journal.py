import pytest

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.server.streaming.memory_journal import MemoryJournal
from ragflow_lg.server.streaming.open_journal import open_journal
from ragflow_lg.server.streaming.redis_journal import RedisJournal
from tests.server.streaming.journals import head, read
from tests.stores import fresh_prefix


@pytest.mark.parametrize("url", ["memory://", "sqlite:///x.db"])
async def test_without_redis_the_journal_is_in_memory(url: str) -> None:
    async with open_journal(url, retention_s=7) as journal:
        assert isinstance(journal, MemoryJournal)
        assert journal.retention_s == 7


async def test_a_journal_in_redis_is_shared_by_all_processes(redis_url: str) -> None:
    prefix = fresh_prefix()
    async with open_journal(redis_url, prefix=prefix) as here, open_journal(redis_url, prefix=prefix) as there:
        assert isinstance(here, RedisJournal)
        await here.begin(head("a"))
        await here.append("a", [b"1"], is_last=True)
        assert await read(there, "a", 0, 1) == [(1, b"1")]


async def test_an_unknown_url_is_refused() -> None:
    with pytest.raises(CheckpointError, match="Invalid session store URL"):
        async with open_journal("mysql://x"):
            pass
