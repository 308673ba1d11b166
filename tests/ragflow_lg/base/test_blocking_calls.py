import asyncio
import sys
from collections.abc import AsyncGenerator, Generator
from typing import cast

import pytest

from ragflow_lg.base.blocking_calls import MAX_AHEAD, iterate_blocking, run_blocking


async def current_loop() -> asyncio.AbstractEventLoop:
    await asyncio.sleep(0)
    return asyncio.get_running_loop()


async def leave() -> None:
    sys.exit(3)


async def leave_in_a_task() -> None:
    await asyncio.create_task(leave())


def test_a_call_that_exits_does_not_end_the_loop_that_all_share() -> None:
    loop = run_blocking(current_loop())
    for call in (leave, leave_in_a_task):
        with pytest.raises(SystemExit):
            run_blocking(call())
        assert run_blocking(current_loop()) is loop


def test_the_shared_loop_cannot_wait_for_itself() -> None:
    async def nested() -> None:
        run_blocking(current_loop())

    with pytest.raises(RuntimeError, match="use the asynchronous method"):
        run_blocking(nested())


async def count(closed: list[int], end: int) -> AsyncGenerator[int]:
    try:
        for number in range(end):
            await asyncio.sleep(0)
            closed[:] = [number]
            yield number
        raise ValueError("the end")
    finally:
        closed.append(-1)


def test_a_caller_that_stops_closes_the_generator() -> None:
    closed: list[int] = []
    items = iterate_blocking(count(closed, 10**9))
    assert [next(items), next(items)] == [0, 1]
    cast("Generator[int]", items).close()
    assert closed[-1] == -1
    assert closed[0] <= MAX_AHEAD + 2


def test_the_error_of_a_generator_follows_its_items() -> None:
    seen: list[int] = []
    with pytest.raises(ValueError, match="the end"):
        seen.extend(iterate_blocking(count([], 500)))
    assert seen == list(range(500))
