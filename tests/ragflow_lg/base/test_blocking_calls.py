import asyncio
import threading
from contextvars import ContextVar

import pytest

from ragflow_lg.base.blocking_calls import run_blocking

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


def test_the_shared_loop_cannot_wait_for_itself() -> None:
    async def nested() -> None:
        run_blocking(report())

    with pytest.raises(RuntimeError, match="use the asynchronous method"):
        run_blocking(nested())
