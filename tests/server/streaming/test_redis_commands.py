import asyncio
import time

import pytest
from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from ragflow_lg.base.errors import StreamError
from ragflow_lg.server.streaming.redis_commands import RedisCommands


async def test_commands_wait_for_their_turn_as_long_as_redis_answers() -> None:
    commands = RedisCommands(at_once=1)

    async def answer() -> str:
        await asyncio.sleep(0.05)
        return "OK"

    start_s = time.monotonic()
    assert await asyncio.gather(*(commands.ask(answer, 0.2) for _ in range(12))) == ["OK"] * 12
    assert time.monotonic() - start_s > 0.5  # longer than the patience of each


async def test_commands_fail_when_redis_answers_none() -> None:
    commands = RedisCommands(at_once=1)

    async def stay_silent() -> None:
        await asyncio.sleep(0.05)
        raise RedisTimeoutError

    start_s = time.monotonic()
    failures = await asyncio.gather(*(commands.ask(stay_silent, 0.2) for _ in range(20)), return_exceptions=True)
    assert {str(failure) for failure in failures} == {"The event journal failed: it did not answer in time."}
    assert time.monotonic() - start_s < 3


async def test_a_command_is_repeated_after_this_process_was_too_busy_to_read_its_answer() -> None:
    commands, replies = RedisCommands(timeout_s=0.1), iter([RedisTimeoutError(), None])

    async def answer_late() -> None:
        if error := next(replies):
            time.sleep(0.5)  # stands for the work of other runs
            raise error

    await commands.ask(answer_late, 0.1)
    assert next(replies, "none left") == "none left"


async def test_a_refused_command_fails_at_once_and_lets_the_next_one_begin() -> None:
    commands = RedisCommands(at_once=1)

    async def refuse() -> None:
        raise ResponseError("no")

    async def answer() -> int:
        return 1

    with pytest.raises(StreamError, match="no"):
        await commands.ask(refuse, 5)
    assert await commands.ask(answer, 5) == 1


async def test_a_cancelled_command_leaves_its_place_to_others() -> None:
    commands, gate = RedisCommands(at_once=1), asyncio.Event()

    async def answer() -> int:
        return 1

    first = asyncio.create_task(commands.ask(gate.wait, 5))
    waiting = [asyncio.create_task(commands.ask(answer, 5)) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    gate.set()
    waiting[1].cancel()
    assert await first
    assert await asyncio.gather(*waiting, return_exceptions=True) != []
    assert await waiting[2] == 1
    assert await commands.ask(answer, 5) == 1
