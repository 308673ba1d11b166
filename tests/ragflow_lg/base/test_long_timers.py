import asyncio

import pytest

from ragflow_lg.base import long_timers
from ragflow_lg.base.long_timers import MOST_CANCELLED, call_at, call_later
from ragflow_lg.base.request_notes import RequestNotes, current_notes, use_notes


def _timer_count(loop: asyncio.AbstractEventLoop) -> int:
    scheduled: list[object] = vars(loop)["_scheduled"]
    return sum(not handle.cancelled() for handle in scheduled if isinstance(handle, asyncio.TimerHandle))


async def test_timers_end_in_their_order_and_share_one_of_the_loop() -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    called: list[int] = []
    for number in (3, 1, 2):
        call_later(number / 100, lambda number=number: called.append(number))
    call_at(loop.time() + 0.04, ended.set)
    assert _timer_count(loop) == 1
    async with asyncio.timeout(10):
        await ended.wait()
    assert called == [1, 2, 3]
    assert _timer_count(loop) == 0


async def test_a_cancelled_timer_calls_nothing() -> None:
    called: list[int] = []
    first, second = (call_later(0.01, lambda number=number: called.append(number)) for number in range(2))
    first.cancel()
    first.cancel()
    await asyncio.sleep(0.05)
    second.cancel()
    assert called == [1]


async def test_an_error_leaves_the_others_running(caplog: pytest.LogCaptureFixture) -> None:
    ended = asyncio.Event()
    call_later(0.01, lambda: 1 / 0)
    call_later(0.01, ended.set)
    async with asyncio.timeout(10):
        await ended.wait()
    assert "ZeroDivisionError" in caplog.text


async def test_a_timer_does_not_belong_to_a_request() -> None:
    found: asyncio.Future[RequestNotes] = asyncio.get_running_loop().create_future()
    with use_notes(RequestNotes("1")):
        call_later(0.0, lambda: found.set_result(current_notes()))
    assert (await found).request_id == ""


async def test_cancelled_timers_are_not_kept_for_long() -> None:
    kept = call_later(600, list)
    timers = [call_later(600, list) for _ in range(3 * MOST_CANCELLED)]
    for timer in timers:
        timer.cancel()
    waiting = kept._timers._waiting  # pyright: ignore[reportPrivateUsage] - what is kept
    assert kept in waiting
    assert len(waiting) <= 2 * MOST_CANCELLED
    kept.cancel()


def test_the_timers_of_a_closed_loop_are_forgotten() -> None:
    async def wait() -> None:
        call_later(600, list)

    known = [len(vars(long_timers)["_TIMERS"]) for _ in range(3) if asyncio.run(wait()) is None]
    assert known[0] == known[1] == known[2]
