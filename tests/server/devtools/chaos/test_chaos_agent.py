import json
from typing import Any

import pytest

from ragflow_lg.agents.strategies import StrategyName
from ragflow_lg.server.devtools.chaos.chaos_agent import MODEL, ROUNDS, ToolUser, WatchedSteps, watch_tool
from ragflow_lg.services.chat import ChatRequest
from ragflow_lg.tools.wikipedia import wikipedia
from tests.fakes.agents import TAVILY, TOOLS, WIKI, play_agent
from tests.harness.rows import each_row

pytestmark = pytest.mark.slow


class Recorder:
    """Records the points that are reached."""

    def __init__(self) -> None:
        self.points: list[tuple[str, str]] = []

    def __call__(self, kind: str, name: str) -> None:
        self.points.append((kind, name))


@each_row("is_shown", [True, False])
@each_row("strategy", ["function_calling", "react", "plan_and_reflect", "deep_research"])
async def test_the_model_uses_every_tool_in_any_strategy(strategy: StrategyName, is_shown: bool) -> None:
    recorder = Recorder()
    model: Any = ToolUser(recorder)
    params = {"strategy": strategy, "tools": [WIKI, TAVILY]}
    played = await play_agent([], params, model=model, is_shown=is_shown, catalog=TOOLS)
    assert played.run.status == "succeeded", played.run.error
    names = [call["name"] for call in played.outputs["use_tools"]]
    assert names == ["wikipedia_search_0", "tavily_search_1"] * ROUNDS
    assert set(recorder.points) == {("call", MODEL)}


async def test_other_requests_are_answered_by_the_demo_model() -> None:
    recorder = Recorder()
    request = ChatRequest("", ({"role": "user", "content": "hello"},))
    assert "You said: hello" in (await ToolUser(recorder).complete(request)).text
    assert "You said: hello" in "".join([delta.text async for delta in ToolUser(recorder).stream(request)])
    assert recorder.points == []


async def test_a_sample_starts_with_the_name_of_the_call() -> None:
    recorder = Recorder()
    watched = watch_tool(wikipedia, recorder)

    class Context:
        task = "0a1b/1.0"
        node = type("Node", (), {"id": "a-->Wiki"})

    assert watched.tool is not None
    context: Any = Context()
    result = await watched.tool.call(context, None, None)  # type: ignore[arg-type] - the tool reads none of them
    assert result.value == "1.0a-->Wiki: a sample"
    assert recorder.points == [("call", "1.0a-->Wiki"), ("called", "1.0a-->Wiki")]


async def test_a_stored_step_is_reported_with_the_name_of_its_call() -> None:
    class MemorySteps:
        def __init__(self) -> None:
            self.results: dict[str, Any] = {}

        async def put(self, key: str, value: Any) -> None:
            self.results[key] = value

        async def find(self, key: str) -> tuple[bool, Any]:
            return key in self.results, self.results.get(key)

    recorder = Recorder()
    steps = WatchedSteps(MemorySteps(), recorder)
    values: list[Any] = [{"text": "", "calls": []}, {"value": "1.0a: x"}, {"value": None}, True]
    for value in values:
        await steps.put(json.dumps(value), value)
    assert recorder.points == [("saved", MODEL), ("saved", "1.0a"), ("saved", ""), ("saved", "")]
    assert await steps.find("true") == (True, True)
