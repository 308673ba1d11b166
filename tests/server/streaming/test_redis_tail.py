import pytest

from ragflow_lg.base.errors import StreamError
from ragflow_lg.server.streaming.redis_journal import parse_entry
from tests.harness.rows import each_row
from tests.server.streaming.journals import OpenJournal, head, read


def test_an_entry_is_parsed() -> None:
    assert parse_entry((b"17-0", {b"e": b"data"})) == (17, b"data")


@each_row("reply", [(b"x-0", {b"e": b""}), (b"1-0", {}), (b"1-0", None), None, (b"1-0",)])
def test_any_other_reply_is_refused(reply: object) -> None:
    with pytest.raises(StreamError):
        parse_entry(reply)


async def test_readers_that_leave_release_their_feeds(open_replica: OpenJournal) -> None:
    async with open_replica() as here, open_replica() as there:
        await here.begin(head("a"))
        for round in range(1, 4):
            await here.append("a", [b"x"])
            assert await read(there, "a", round - 1, 1) == [(round, b"x")]
            assert there._feeds == {}
            assert there._tail._feeds == {}
