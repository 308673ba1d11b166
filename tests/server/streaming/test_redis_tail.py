from __future__ import annotations

import pytest

from ragflow_lg.base.errors import StreamError
from ragflow_lg.server.streaming.event_window import Entry
from ragflow_lg.server.streaming.redis_tail import entry_of
from tests.server.streaming.journals import OpenJournal, head, read


def test_an_entry_is_read() -> None:
    assert entry_of((b"17-0", {b"e": b"data"})) == Entry(17, b"data")


@pytest.mark.parametrize("found", [(b"x-0", {b"e": b""}), (b"1-0", {}), (b"1-0", None), None, (b"1-0",)], ids=range(5))
def test_anything_else_is_refused(found: object) -> None:
    with pytest.raises(StreamError):
        entry_of(found)


async def test_readers_that_come_and_go_leave_nothing_behind(open_replica: OpenJournal) -> None:
    async with open_replica() as here, open_replica() as there:
        await here.begin(head("a"))
        for round in range(1, 4):
            await here.append("a", [b"x"])
            assert await read(there, "a", round - 1, 1) == [(round, b"x")]
            assert there._feeds == {}
            assert there._tail._feeds == {}
