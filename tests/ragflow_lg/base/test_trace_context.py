from __future__ import annotations

import asyncio

from ragflow_lg.base.trace_context import traceparent, tracing_as


async def test_tasks_that_begin_meanwhile_belong_to_the_trace() -> None:
    async def look() -> str:
        return traceparent()

    with tracing_as("00-aa-bb-01"):
        task = asyncio.create_task(look())
    assert (traceparent(), await task) == ("", "00-aa-bb-01")
