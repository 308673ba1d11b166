import pytest

from ragflow_lg.base.errors import StreamError
from ragflow_lg.server.streaming.run_queue.open_queue import open_queue


async def test_a_queue_that_does_not_answer_is_named_without_its_password() -> None:
    with pytest.raises(StreamError) as raised:
        async with open_queue("redis://u:secret@127.0.0.1:1", lambda _: 1):
            pass
    assert str(raised.value) == (
        "The queue of runs at redis://127.0.0.1:1 does not answer: its Redis server cannot be reached. "
        "Start that server, or correct --queue or `url` of [queue]."
    )
