import asyncio

import pytest

from ragflow_lg.base.limits import Limits


async def sleeping(limits: Limits, seconds: float | None) -> str:
    try:
        with limits.limit(seconds):
            await asyncio.sleep(30)
    except TimeoutError:
        return "over"
    return "done"


async def test_each_ends_at_its_own_time() -> None:
    limits, loop = Limits(), asyncio.get_running_loop()
    began = loop.time()

    async def timed(seconds: float) -> float:
        assert await sleeping(limits, seconds) == "over"
        return loop.time() - began

    async with asyncio.timeout(10):
        times = await asyncio.gather(*map(timed, (0.3, 0.1, 0.2)))
    assert times[1] < times[2] < times[0]
    assert all(took >= wanted for took, wanted in zip(times, (0.3, 0.1, 0.2), strict=True))
    limits.close()


async def test_what_is_quick_leaves_nothing_but_one_timer() -> None:
    limits, loop = Limits(), asyncio.get_running_loop()
    before = len(loop._scheduled)  # type: ignore[attr-defined]
    for _ in range(100):
        with limits.limit(600):
            await asyncio.sleep(0)
    assert len(loop._scheduled) == before + 1  # type: ignore[attr-defined]
    limits.close()
    assert limits._timer is None  # pyright: ignore[reportPrivateUsage]


async def test_all_end_at_once_with_or_without_a_limit() -> None:
    limits = Limits()
    running = [asyncio.create_task(sleeping(limits, seconds)) for seconds in (None, 60)]
    await asyncio.sleep(0)
    limits.end_all()
    limits.end_all()
    async with asyncio.timeout(5):
        assert await asyncio.gather(*running) == ["over", "over"]
    assert all(task.cancelling() == 0 for task in running)


async def test_a_cancel_from_elsewhere_stays_one() -> None:
    limits = Limits()
    running = asyncio.create_task(sleeping(limits, 60))
    await asyncio.sleep(0)
    running.cancel()
    limits.end_all()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_paused_time_does_not_count() -> None:
    limits, loop = Limits(), asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(TimeoutError), limits.limit(0.2) as limit:  # noqa: PT012 - what follows the pause ends
        with limit.paused():
            await asyncio.sleep(0.4)
        await asyncio.sleep(30)
    assert 0.55 < loop.time() - began < 5
    limits.close()
