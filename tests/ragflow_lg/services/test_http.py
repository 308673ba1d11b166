import asyncio

from ragflow_lg.services.http import current_traceparent, use_traceparent


async def test_tasks_started_inside_the_block_belong_to_the_trace() -> None:
    async def read() -> str:
        return current_traceparent()

    with use_traceparent("00-aa-bb-01"):
        task = asyncio.create_task(read())
    assert (current_traceparent(), await task) == ("", "00-aa-bb-01")
