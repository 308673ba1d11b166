import asyncio
from contextlib import suppress

from ragflow_lg.server.streaming.task_cancellation import end_task


async def test_a_task_that_swallows_cancellations_ends() -> None:
    async def stubborn() -> None:
        for _ in range(2):
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(60)
        await asyncio.sleep(60)

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    async with asyncio.timeout(2):
        await end_task(task)
        await end_task(task)
    assert task.cancelled()
