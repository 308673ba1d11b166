import asyncio
import sys
import threading
from collections.abc import AsyncGenerator, Generator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import cast

import pytest

from ragflow_lg.base import blocking_calls
from ragflow_lg.base.blocking_calls import MAX_AHEAD, iterate_blocking, run_blocking

word: ContextVar[str] = ContextVar("word", default="")


async def report() -> tuple[str, int, asyncio.AbstractEventLoop]:
    await asyncio.sleep(0)
    return word.get(), threading.get_ident(), asyncio.get_running_loop()


def test_calls_share_one_loop_and_see_the_context_of_the_caller() -> None:
    word.set("hello")
    text, thread, loop = run_blocking(report())
    assert text == "hello"
    assert thread != threading.get_ident()
    assert run_blocking(report())[2] is loop


async def test_a_caller_with_a_running_loop_can_block() -> None:
    assert run_blocking(report())[2] is not asyncio.get_running_loop()


def test_errors_reach_the_caller() -> None:
    async def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run_blocking(fail())


def test_first_calls_of_several_threads_share_one_loop() -> None:
    blocking_calls._shared_loop.cache_clear()  # pyright: ignore[reportPrivateUsage]
    with ThreadPoolExecutor(8) as threads:
        barrier = threading.Barrier(8)

        def call() -> asyncio.AbstractEventLoop:
            barrier.wait()
            return run_blocking(report())[2]

        calls = [threads.submit(call) for _ in range(8)]
        assert len({result.result() for result in calls}) == 1


@pytest.mark.parametrize("in_task", [False, True])
def test_a_call_that_exits_does_not_end_the_loop(*, in_task: bool) -> None:
    async def leave() -> None:
        sys.exit(3)

    async def call() -> None:
        await (asyncio.create_task(leave()) if in_task else leave())

    loop = run_blocking(report())[2]
    with pytest.raises(SystemExit):
        run_blocking(call())
    assert run_blocking(report())[2] is loop


def test_the_shared_loop_cannot_wait_for_itself() -> None:
    async def nested() -> None:
        run_blocking(report())

    with pytest.raises(RuntimeError, match="use the asynchronous method"):
        run_blocking(nested())


async def count(closed: list[int], end: int) -> AsyncGenerator[int]:
    try:
        for number in range(end):
            await asyncio.sleep(0)
            closed[:] = [number]
            yield number
        if end == 3:
            raise ValueError("three")
    finally:
        closed.append(-1)


def test_items_are_yielded_one_by_one() -> None:
    closed: list[int] = []
    assert list(iterate_blocking(count(closed, 500))) == list(range(500))
    assert closed[-1] == -1


def test_a_caller_that_stops_closes_the_generator() -> None:
    closed: list[int] = []
    items = iterate_blocking(count(closed, 10**9))
    assert [next(items), next(items)] == [0, 1]
    cast("Generator[int]", items).close()
    assert closed[-1] == -1
    assert closed[0] <= MAX_AHEAD + 2


def test_the_error_of_a_generator_follows_its_items() -> None:
    seen: list[int] = []
    with pytest.raises(ValueError, match="three"):
        seen.extend(iterate_blocking(count([], 3)))
    assert seen == [0, 1, 2]
