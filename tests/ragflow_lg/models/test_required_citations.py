from __future__ import annotations

from typing import Any

import pytest

from ragflow_lg.base.errors import ComponentError
from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.context import RunContext
from ragflow_lg.component.plan import Plan, PlanNode
from ragflow_lg.component.turn_context import TurnContext
from ragflow_lg.components.llm import llm
from ragflow_lg.models.required_citations import require_citations
from ragflow_lg.services.chat import ChatRequest
from tests.fakes.run import bind
from tests.fakes.services import ScriptedModel, fake_services

REQUEST = ChatRequest("S", ({"role": "user", "content": "q"},))
FOUND = {"chunks": {"61": {"id": "c-rice", "content": "Rice needs water."}}, "doc_aggs": {}}


async def run_check(answer: str, *again: str, references: Any = None) -> tuple[str, list[ChatRequest]]:
    node = PlanNode(NodeId("m"), llm, bind(llm, {}), "", 0, "")
    state = {"turn": {"references": FOUND if references is None else references}}
    ctx = RunContext(Plan("", NodeId("m"), {NodeId("m"): node}, {}), node, TurnContext(fake_services()), state)
    requests: list[ChatRequest] = []
    replies = list(again)

    async def ask_again(request: ChatRequest) -> str:
        requests.append(request)
        return replies.pop(0)

    return await require_citations(ctx, ScriptedModel(), REQUEST, answer, ask_again), requests


async def test_one_citation_is_enough_and_without_sources_none_is_needed() -> None:
    assert await run_check("Water [ID:61].") == ("Water [ID:61].", [])
    assert await run_check("Water.", references={"chunks": {}}) == ("Water.", [])


async def test_an_answer_without_citations_is_requested_once_more() -> None:
    answer, (request,) = await run_check("<think>[ID:61]</think>Water [ID:62].", "Water [ID:61].")
    assert answer == "Water [ID:61]."
    assert request.messages[1] == {"role": "assistant", "content": "Water [ID:62]."}
    assert "Rice needs water." in request.messages[2]["content"]


async def test_a_second_answer_without_citations_is_an_error() -> None:
    with pytest.raises(ComponentError, match="cites none"):
        await run_check("Water.", "Still water.")
