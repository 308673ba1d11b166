from __future__ import annotations

from typing import Any

import pytest

from ragflow_lg.agents.agent_run import AgentRun, append_message, result_text
from ragflow_lg.agents.toolbox import Toolbox
from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.context import RunContext, TurnContext
from ragflow_lg.component.turn_context import MemorySteps
from ragflow_lg.services.chat import ChatRequest
from ragflow_lg.services.token_budget import TokenBudget
from tests.fakes.agents import play_agent, tool_calls
from tests.fakes.canvas import canvas, plan_of, text
from tests.fakes.regions import play_run
from tests.fakes.services import Reply, ScriptedModel, fake_services
from tests.stores import OpenStore

LOOK = tool_calls(("wikipedia_search_0", {"query": "Laos"}), text="Looking. ")


async def test_completed_steps_are_not_repeated_when_the_turn_resumes(reopen: OpenStore) -> None:
    async with reopen() as store:
        first = await play_agent([LOOK, Reply("Vien", hangs=True)], store=store)
        assert (first.run.status, len(first.model.requests), len(first.http.requests)) == ("cancelled", 2, 1)
        first.model.replies.append(Reply("Vientiane."))
        run = first.runner.continue_("s")
        answer, _ = await play_run(run)
    assert run.status == "succeeded"
    assert (len(first.model.requests), len(first.http.requests)) == (3, 1)
    assert answer == "Looking. Vientiane."
    assert [m["role"] for m in first.model.requests[2][1].messages] == ["user", "assistant", "tool"]


async def test_usage_before_a_crash_counts(reopen: OpenStore) -> None:
    async with reopen() as store:
        first = await play_agent([LOOK, Reply(hangs=True)], store=store, is_shown=False)
        first.model.replies.append(Reply("Vientiane."))
        run = first.runner.continue_("s")
        finished = [event async for event in run if event.event == "workflow_finished"]
    data: Any = finished[0].data()
    assert data["usage"]["calls"] == 2


async def test_the_state_of_a_shared_budget_is_the_same_after_a_crash() -> None:
    plan, steps = plan_of(canvas({"a": text()})), MemorySteps()

    def process(spent: int) -> AgentRun:
        ctx = RunContext(plan, plan.nodes[NodeId("a")], TurnContext(fake_services(), steps=steps), {}, task="t")
        outer = TokenBudget()
        outer.limit, ctx.budget = 10, TokenBudget(outer)
        ctx.budget.charge(spent)
        return AgentRun(ctx, ScriptedModel(), ChatRequest("", ()), Toolbox(ctx, ()), 1)

    assert not await process(9).is_spent("round 1")
    assert not await process(10).is_spent("round 1")
    assert await process(10).is_spent("round 2")


@pytest.mark.parametrize(
    ("value", "says"), [("é", "é"), (None, ""), ([1, "é"], '[1, "é"]'), (0, "0"), ({"a": None}, '{"a": null}')]
)
def test_results_are_texts_or_json(value: JsonValue, says: str) -> None:
    assert result_text(value) == says


def test_consecutive_messages_of_one_role_are_merged() -> None:
    assert append_message([{"role": "user", "content": "a"}], "user", "b") == [{"role": "user", "content": "a\n\nb"}]
    assert [m["role"] for m in append_message([{"role": "user", "content": "a"}], "assistant", "b")] == [
        "user",
        "assistant",
    ]
