import asyncio

from ragflow_lg.services.http import current_traceparent, use_traceparent
from ragflow_lg.services.tool_policies import ToolSettings


async def test_tasks_started_inside_the_block_belong_to_the_trace() -> None:
    async def read() -> str:
        return current_traceparent()

    with use_traceparent("00-aa-bb-01"):
        task = asyncio.create_task(read())
    assert (current_traceparent(), await task) == ("", "00-aa-bb-01")


def test_tool_settings_are_normalised_and_hide_their_keys() -> None:
    tools = ToolSettings({"acme": "http://a/"}, {"acme": " k\n"})
    assert [tools.endpoint(name, "http://b/") for name in ("acme", "other")] == ["http://a", "http://b"]
    assert [tools.key(name) for name in ("acme", "other")] == ["k", ""]
    assert "k\\n" not in repr(tools)
