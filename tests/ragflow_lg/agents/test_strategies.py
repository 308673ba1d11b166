"""Every strategy does the tasks of ``tests/fixtures/agent_tasks`` by the same calls to the same answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from ragflow_lg.agents.strategies import StrategyName, choose_strategy, load_strategy
from ragflow_lg.base.values import to_text
from ragflow_lg.dsl_compiler import check_canvas
from tests.conftest import FIXTURES
from tests.fakes.agents import TOOLS, play_agent
from tests.fakes.canvas import CATALOG, canvas, node
from tests.fakes.services import ScriptedModel
from tests.fakes.strategy_scripts import replies_of

STRATEGIES: tuple[StrategyName, ...] = get_args(StrategyName)
TASKS = sorted((FIXTURES / "agent_tasks").glob("*.json"))

every_strategy = pytest.mark.parametrize("strategy", STRATEGIES)


def for_all(tools: list[dict[str, Any]], strategy: str) -> list[dict[str, Any]]:
    """Let agents among the tools take the same strategy."""
    return [
        {
            **tool,
            "params": {**tool["params"], "strategy": strategy, "tools": for_all(tool["params"]["tools"], strategy)},
        }
        if tool["component_name"] == "Agent"
        else tool
        for tool in tools
    ]


@pytest.mark.parametrize("is_shown", [True, False], ids=["shown", "quiet"])
@every_strategy
@pytest.mark.parametrize("path", TASKS, ids=lambda path: path.stem)
async def test_every_strategy_comes_to_the_same_answer(path: Path, strategy: str, is_shown: bool) -> None:
    task = json.loads(path.read_text(encoding="utf-8"))
    params = {**task.get("params", {}), "strategy": strategy, "tools": for_all(task["tools"], strategy)}
    replies = replies_of(task["moves"], strategy)
    played = await play_agent(replies, params, query=task["query"], is_shown=is_shown, catalog=TOOLS)
    assert (played.run.status, played.model.replies) == ("succeeded", [])
    if "structured" in task:
        assert played.outputs["structured"] == task["structured"]
    elif is_shown:
        assert played.run.answer == task["answer"]
    else:
        assert played.outputs["content"] == task["answer"]
    used = played.outputs["use_tools"]
    assert [[call["name"], call["arguments"]] for call in used] == [call[:2] for call in task["use_tools"]]
    for call, (_, _, says) in zip(used, task["use_tools"], strict=True):
        assert says in to_text(call["results"])


def test_there_are_ten_tasks_and_more() -> None:
    assert len(TASKS) > 10


def test_every_name_has_its_strategy() -> None:
    assert len({load_strategy(name) for name in STRATEGIES}) == len(STRATEGIES) == 3


def test_a_strategy_nobody_knows_is_refused_by_naming_those_there_are() -> None:
    document = canvas({"a": node("Agent", {"strategy": "magic"}, ["out"]), "out": node("Message", {"content": ["x"]})})
    (told,) = [d for d in check_canvas(document, CATALOG)[1] if d.severity == "error"]
    assert told.pointer == "/components/a/obj/params/strategy"
    assert all(name in told.message for name in STRATEGIES)


@pytest.mark.parametrize(
    ("has_tools", "chosen", "taken"),
    [
        (True, None, "function_calling"),
        (False, None, "react"),
        (False, "function_calling", "react"),
        (True, "react", "react"),
        (False, "plan_and_reflect", "plan_and_reflect"),
    ],
)
def test_the_model_decides_where_nobody_chose(has_tools: bool, chosen: StrategyName | None, taken: str) -> None:
    assert choose_strategy(ScriptedModel(has_tools=has_tools), chosen) == taken


@every_strategy
async def test_a_budget_that_is_used_up_makes_the_next_round_the_last(strategy: str) -> None:
    look = {"calls": [{"name": "look_up_0", "arguments": {"query": "Laos"}}]}
    replies = replies_of([look, look, {"answer": "Vientiane."}], strategy)
    limit = 1 if strategy != "plan_and_reflect" else 300
    tools = [{"component_name": "LookUp", "name": "LookUp", "params": {}}]
    params = {"strategy": strategy, "tools": tools, "max_total_tokens": limit, "max_rounds": 30}
    kept = {"function_calling": [0, 2], "react": [0, 2], "plan_and_reflect": [0, 1, -1]}[strategy]
    played = await play_agent([replies[i] for i in kept], params, catalog=TOOLS)
    assert played.run.answer == "Vientiane."
    assert len(played.outputs["use_tools"]) == 1
    assert played.model.requests[-1][1].tools == ()
