import asyncio

import pytest

from ragflow_lg.component.turn_context import Limits, paused


async def sleep_within(limits: Limits, seconds: float | None) -> str:
    try:
        async with limits.limit(seconds):
            await asyncio.sleep(30)
    except TimeoutError:
        return "over"
    return "done"


async def test_end_all_ends_every_block_and_a_cancellation_from_elsewhere_stays_one() -> None:
    limits = Limits()
    running = [asyncio.create_task(sleep_within(limits, seconds)) for seconds in (None, 60, 60)]
    await asyncio.sleep(0)
    running[2].cancel()
    limits.end_all()
    limits.end_all()
    async with asyncio.timeout(60):
        assert await asyncio.gather(*running[:2]) == ["over", "over"]
    assert all(task.cancelling() == 0 for task in running[:2])
    with pytest.raises(asyncio.CancelledError):
        await running[2]


async def test_paused_time_does_not_count_and_what_has_ended_can_still_wait() -> None:
    began = asyncio.get_running_loop().time()
    with pytest.raises(TimeoutError):  # noqa: PT012 - the statement after the pause raises
        async with Limits().limit(0.05) as limit:
            with paused(limit):
                await asyncio.sleep(0.1)
            try:
                await asyncio.sleep(30)
            finally:
                with paused(limit):
                    await asyncio.sleep(0)
    assert 0.14 < asyncio.get_running_loop().time() - began < 20
