"""Every strategy solves the tasks of ``tests/fixtures/agent_tasks`` with the same calls and answers.

Deep research is the exception: its model asks queries, not tools. See `tests.ragflow_lg.agents.test_deep_research`.
"""

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from ragflow_lg.agents.strategies import StrategyName, choose_strategy
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.values import to_text
from ragflow_lg.dsl_compiler import check_canvas
from tests.conftest import FIXTURES
from tests.fakes.agents import TAVILY, TOOLS, WIKI, play_agent, tool_calls
from tests.fakes.canvas import CATALOG, canvas, node
from tests.fakes.regions import play_run
from tests.fakes.services import Reply, ScriptedModel
from tests.fakes.strategy_scripts import replies_of
from tests.harness.rows import each_row
from tests.stores import OpenStore

STRATEGIES: tuple[StrategyName, ...] = get_args(StrategyName)
TASKS = sorted((FIXTURES / "agent_tasks").glob("*.json"))

every_strategy = pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name != "deep_research"])


def with_strategy(tools: list[dict[str, Any]], strategy: str) -> list[dict[str, Any]]:
    """Set the strategy of nested agents."""
    made: list[dict[str, Any]] = []
    for tool in tools:
        params = tool["params"]
        if tool["component_name"] == "Agent":
            params = {**params, "strategy": strategy, "tools": with_strategy(params["tools"], strategy)}
        made.append({**tool, "params": params})
    return made


@pytest.mark.parametrize("is_shown", [True, False], ids=["shown", "quiet"])
@every_strategy
@pytest.mark.parametrize("path", TASKS, ids=lambda path: path.stem)
async def test_every_strategy_returns_the_same_answer(path: Path, strategy: str, is_shown: bool) -> None:
    task = json.loads(path.read_text(encoding="utf-8"))
    params = {**task.get("params", {}), "strategy": strategy, "tools": with_strategy(task["tools"], strategy)}
    replies = replies_of(task["moves"], strategy)
    turn = await play_agent(replies, params, query=task["query"], is_shown=is_shown, catalog=TOOLS)
    assert (turn.run.status, turn.model.replies) == ("succeeded", [])
    if "structured" in task:
        assert turn.outputs["structured"] == task["structured"]
    elif is_shown:
        assert turn.run.answer == task["answer"]
    else:
        assert turn.outputs["content"] == task["answer"]
    calls = turn.outputs["use_tools"]
    assert [[call["name"], call["arguments"]] for call in calls] == [call[:2] for call in task["use_tools"]]
    for call, (_, _, says) in zip(calls, task["use_tools"], strict=True):
        assert says in to_text(call["results"])


def test_an_unknown_strategy_is_an_error_that_names_the_known_ones() -> None:
    document = canvas({"a": node("Agent", {"strategy": "magic"}, ["out"]), "out": node("Message", {"content": ["x"]})})
    (error,) = [d for d in check_canvas(document, CATALOG)[1] if d.severity == "error"]
    assert error.pointer == "/components/a/obj/params/strategy"
    assert all(name in error.message for name in STRATEGIES)


@each_row(
    ("has_tools", "configured", "expected"),
    [
        (True, None, "function_calling"),
        (False, None, "react"),
        (False, "function_calling", "react"),
        (True, "react", "react"),
        (False, "plan_and_reflect", "plan_and_reflect"),
    ],
)
def test_the_default_strategy_depends_on_the_model(
    has_tools: bool, configured: StrategyName | None, expected: str
) -> None:
    assert choose_strategy(ScriptedModel(has_tools=has_tools), configured) == expected


@every_strategy
async def test_a_spent_budget_makes_the_next_round_the_last(strategy: str) -> None:
    look = {"calls": [{"name": "look_up_0", "arguments": {"query": "Laos"}}]}
    replies = replies_of([look, look, {"answer": "Vientiane."}], strategy)
    limit = 1 if strategy != "plan_and_reflect" else 300
    tools: list[dict[str, Any]] = [{"component_name": "LookUp", "name": "LookUp", "params": {}}]
    params = {"strategy": strategy, "tools": tools, "max_total_tokens": limit, "max_rounds": 30}
    indices = {"function_calling": [0, 2], "react": [0, 2], "plan_and_reflect": [0, 1, -1]}[strategy]
    turn = await play_agent([replies[i] for i in indices], params, catalog=TOOLS)
    assert turn.run.answer == "Vientiane."
    assert len(turn.outputs["use_tools"]) == 1
    assert turn.model.requests[-1][1].tools == ()


@every_strategy
async def test_completed_steps_are_not_repeated_when_the_turn_resumes(strategy: str, reopen: OpenStore) -> None:
    call = {"calls": [{"name": "wikipedia_search_0", "arguments": {"query": "Laos"}}]}
    *replies, last = replies_of([call, {"answer": "Vientiane."}], strategy)
    async with reopen() as store:
        params = {"strategy": strategy, "tools": [WIKI]}
        first = await play_agent([*replies, Reply("Vien", hangs=True)], params, store=store)
        assert (first.run.status, len(first.http.requests)) == ("cancelled", 1)
        first.model.replies.append(last)
        answer, _ = await play_run(first.runner.continue_("s"))
    assert answer == "Vientiane."
    assert (len(first.model.requests), len(first.http.requests)) == (len(replies) + 2, 1)


LOOK = tool_calls(("wikipedia_search_0", {"query": "Laos"}))


async def test_results_come_back_in_the_order_of_the_calls() -> None:
    calls = tool_calls(("tavily_search_1", {"query": "b"}), ("wikipedia_search_0", {"query": "a"}))
    answers = {"http://t/search": ServiceError("Tavily is down")}
    turn = await play_agent([calls, Reply("ok")], {"tools": [WIKI, TAVILY]}, answers=answers)
    assert turn.tool_results[0] == "Tavily error: Tavily is down"
    assert turn.tool_results[1].endswith("Vientiane is the capital.")
    assistant: Any = turn.model.requests[-1][1].messages[1]
    assert [call["name"] for call in assistant["tool_calls"]] == ["tavily_search_1", "wikipedia_search_0"]


async def test_after_the_last_round_the_model_must_answer() -> None:
    turn = await play_agent([LOOK, LOOK, LOOK, Reply("enough")], {"max_rounds": 1})
    last = turn.model.requests[-1][1]
    assert len(turn.model.requests) == 3
    assert last.tools == ()
    assert last.messages[-1]["content"].startswith("Exceed max rounds: 1. Tools are no longer available.")


async def test_reasoning_and_calls_are_one_thought() -> None:
    first = tool_calls(("wikipedia_search_0", {"query": "Laos"}))
    first.reasoning = "I need to look."
    turn = await play_agent([first, Reply("Vientiane.", reasoning="Now I know it.")])
    thought = "I need to look.Running the wikipedia_search_0 tool...Now I know it."
    assert turn.outputs["content"] == f"<think>{thought}</think>Vientiane."
