from __future__ import annotations

import json
from typing import Any

import pytest

from ragflow_lg.agents.strategies import StrategyName
from ragflow_lg.server.devtools.chaos.chaos_agent import MODEL, ROUNDS, ToolUser, WatchedSteps, tool_watched
from ragflow_lg.services.chat import ChatRequest
from ragflow_lg.tools.wikipedia import wikipedia
from tests.fakes.agents import TAVILY, TOOLS, WIKI, play_agent


class Reached:
    """Remembers what was reached."""

    def __init__(self) -> None:
        self.places: list[tuple[str, str]] = []

    def __call__(self, place: str, who: str) -> None:
        self.places.append((place, who))


@pytest.mark.parametrize("is_shown", [True, False])
@pytest.mark.parametrize("strategy", ["function_calling", "react", "plan_and_reflect"])
async def test_the_model_uses_every_tool_in_any_strategy(strategy: StrategyName, is_shown: bool) -> None:
    reached = Reached()
    model: Any = ToolUser(reached)
    params = {"strategy": strategy, "tools": [WIKI, TAVILY]}
    played = await play_agent([], params, model=model, is_shown=is_shown, catalog=TOOLS)
    assert played.run.status == "succeeded", played.run.error
    names = [call["name"] for call in played.outputs["use_tools"]]
    assert names == ["wikipedia_search_0", "tavily_search_1"] * ROUNDS
    assert set(reached.places) == {("call", MODEL)}


async def test_others_are_answered_by_the_demo_model() -> None:
    reached = Reached()
    request = ChatRequest("", ({"role": "user", "content": "hello"},))
    assert "You said: hello" in (await ToolUser(reached).complete(request)).text
    assert "You said: hello" in "".join([delta.text async for delta in ToolUser(reached).stream(request)])
    assert reached.places == []


async def test_a_tool_gives_a_sample_that_begins_with_the_name_of_the_call() -> None:
    reached = Reached()
    watched = tool_watched(wikipedia, reached)

    class Context:
        task = "0a1b/1.0"
        node = type("Node", (), {"id": "a-->Wiki"})

    assert watched.tool is not None
    context: Any = Context()
    result = await watched.tool.call(context, None, None)  # type: ignore[arg-type]
    assert result.value == "1.0a-->Wiki: a sample"
    assert reached.places == [("call", "1.0a-->Wiki"), ("called", "1.0a-->Wiki")]


async def test_a_stored_step_is_told_by_whose_it_is() -> None:
    class Kept:
        def __init__(self) -> None:
            self.held: dict[str, Any] = {}

        async def put(self, key: str, value: Any) -> None:
            self.held[key] = value

        async def find(self, key: str) -> tuple[bool, Any]:
            return key in self.held, self.held.get(key)

    reached = Reached()
    steps = WatchedSteps(Kept(), reached)
    for value in ({"text": "", "calls": []}, {"value": "1.0a: x"}, {"value": None}, True):
        await steps.put(json.dumps(value), value)
    assert reached.places == [("kept", MODEL), ("kept", "1.0a"), ("kept", ""), ("kept", "")]
    assert await steps.find("true") == (True, True)
