import asyncio

import pytest

from ragflow_lg.base.limits import Limits, paused


async def sleep_within(limits: Limits, seconds: float | None) -> str:
    try:
        async with limits.limit(seconds):
            await asyncio.sleep(30)
    except TimeoutError:
        return "over"
    return "done"


async def test_each_limit_ends_at_its_own_time() -> None:
    limits, loop = Limits(), asyncio.get_running_loop()
    began = loop.time()

    async def timed(seconds: float) -> float:
        assert await sleep_within(limits, seconds) == "over"
        return loop.time() - began

    async with asyncio.timeout(10):
        times = await asyncio.gather(*map(timed, (0.3, 0.1, 0.2)))
    assert times[1] < times[2] < times[0]
    assert all(elapsed >= limit for elapsed, limit in zip(times, (0.3, 0.1, 0.2), strict=True))


async def test_end_all_ends_blocks_with_and_without_a_limit() -> None:
    limits = Limits()
    running = [asyncio.create_task(sleep_within(limits, seconds)) for seconds in (None, 60)]
    await asyncio.sleep(0)
    limits.end_all()
    limits.end_all()
    async with asyncio.timeout(60):
        assert await asyncio.gather(*running) == ["over", "over"]
    assert all(task.cancelling() == 0 for task in running)


async def test_a_cancellation_from_elsewhere_stays_one() -> None:
    limits = Limits()
    running = asyncio.create_task(sleep_within(limits, 60))
    await asyncio.sleep(0)
    running.cancel()
    limits.end_all()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_paused_time_does_not_count() -> None:
    limits, loop = Limits(), asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(TimeoutError):  # noqa: PT012 - the statement after the pause raises
        async with limits.limit(0.2) as limit:
            with paused(limit):
                await asyncio.sleep(0.4)
            await asyncio.sleep(30)
    assert 0.55 < loop.time() - began < 5


async def test_what_has_ended_can_still_wait_for_others() -> None:
    limits = Limits()
    with pytest.raises(TimeoutError):  # noqa: PT012 - the end of the block raises
        async with limits.limit(0.01) as limit:
            try:
                await asyncio.sleep(30)
            finally:
                with paused(limit):
                    await asyncio.sleep(0)
