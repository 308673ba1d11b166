import asyncio
import threading

import pytest

from ragflow_lg.base.work_thread import WorkThread


async def test_functions_run_in_one_thread_in_order() -> None:
    thread, seen = WorkThread("test"), list[tuple[int, str]]()

    def note(number: int) -> int:
        seen.append((number, threading.current_thread().name))
        return number * 2

    results = [thread.run(lambda number=number: note(number)) for number in range(5)]
    assert await asyncio.gather(*results) == [0, 2, 4, 6, 8]
    assert seen == [(number, "test") for number in range(5)]
    thread.close()


async def test_an_error_reaches_the_caller_and_the_next_function_runs() -> None:
    thread = WorkThread("test")
    with pytest.raises(ZeroDivisionError):
        await thread.run(lambda: 1 // 0)
    assert await thread.run(lambda: "next") == "next"
    thread.close()


async def test_a_cancelled_function_never_starts_or_runs_to_its_end() -> None:
    thread, seen = WorkThread("test"), list[str]()
    has_started, may_end = threading.Event(), threading.Event()

    def begin() -> None:
        has_started.set()
        may_end.wait(10)
        seen.append("first")

    first, second = thread.run(begin), thread.run(lambda: seen.append("second"))
    await asyncio.to_thread(has_started.wait, 10)
    first.cancel()
    second.cancel()
    may_end.set()
    await thread.run(lambda: seen.append("third"))
    assert seen == ["first", "third"]
    thread.close()


def test_a_loop_that_has_ended_does_not_end_the_thread() -> None:
    thread, may_end = WorkThread("test"), threading.Event()

    async def leave() -> None:
        thread.run(lambda: may_end.wait(10))

    async def ask() -> str:
        return await thread.run(lambda: "answer")

    asyncio.run(leave())
    may_end.set()
    assert asyncio.run(ask()) == "answer"
    thread.close()


async def test_closing_ends_the_thread_after_its_work() -> None:
    thread = WorkThread("closed")
    last = thread.run(threading.current_thread)
    thread.close()
    worker = await last
    await asyncio.to_thread(worker.join, 10)
    assert not worker.is_alive()
    assert worker.name == "closed"
