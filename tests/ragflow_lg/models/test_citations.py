import pytest

from ragflow_lg.base.errors import ComponentError
from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.context import RunContext
from ragflow_lg.component.plan import Plan, PlanNode
from ragflow_lg.component.turn_context import TurnContext
from ragflow_lg.components.llm import llm
from ragflow_lg.models.citations import (
    CitationFilter,
    build_citation_prompt,
    find_known_citations,
    require_citations,
    strip_unknown_citations,
)
from ragflow_lg.services.chat import ChatRequest
from tests.fakes.prompts import head_of
from tests.fakes.run import bind
from tests.fakes.services import ScriptedModel, fake_services
from tests.harness.rows import each_row

REFERENCES = {"chunks": {"61": {"id": "c-rice", "content": "Rice needs water."}, "7": {"id": "x"}}, "doc_aggs": {}}


def test_only_known_numbers_count() -> None:
    text = "Rice [ID:61][ID: 7], again [ID:61]; made up [ID:9], [7], (ID: 7), [ID:x], [ID:" + "6" * 10_000 + "]"
    assert find_known_citations(text, REFERENCES) == ["61", "7"]
    assert find_known_citations(text, {}) == []


ANSWERS = {
    "Rice [ID:61], tea [ID:9].": "Rice [ID:61], tea.",
    "[ID:9] [ID:61][ID: 9] [ID: 7]": " [ID:61] [ID: 7]",
    "a" + " " * 12 + "[ID:9]b": "a" + " " * 4 + "b",
    "[[ID:9]] [ID:x] [IDs] [ID:] [ID:1234567890] [": "[] [ID:x] [IDs] [ID:] [ID:1234567890] [",
    "ends with [ID:6": "ends with [ID:6",
    "ends   ": "ends   ",
}


@each_row(("answer", "expected"), ANSWERS.items())
def test_unknown_citations_are_removed_for_any_pieces(answer: str, expected: str) -> None:
    def is_known(number: str) -> bool:
        return number in REFERENCES["chunks"]

    assert strip_unknown_citations(answer, is_known) == expected
    for size in range(1, len(answer) + 1):
        stream = CitationFilter(is_known)
        pieces = [stream.feed(answer[at : at + size]) for at in range(0, len(answer), size)]
        assert "".join(pieces) + stream.finish() == expected


REQUEST = ChatRequest("S", ({"role": "user", "content": "q"},))
SOURCES = {"chunks": {"61": {"id": "c-rice", "content": "Rice needs water."}}, "doc_aggs": {}}


def context() -> RunContext:
    node = PlanNode(NodeId("m"), llm, bind(llm, {}), "", 0, "")
    state = {"turn": {"references": SOURCES}}
    return RunContext(Plan("", NodeId("m"), {NodeId("m"): node}, {}), node, TurnContext(fake_services()), state)


def test_the_prompt_for_adding_citations_contains_the_sources() -> None:
    system = build_citation_prompt(context(), "Cite so.")
    assert system.startswith(head_of("add_citations") + "Cite so.\n\nPassages:\n\nID: ")
    assert "Rice needs water." in system


async def run_check(answer: str, *again: str) -> tuple[str, list[ChatRequest]]:
    ctx = context()
    requests: list[ChatRequest] = []
    replies = list(again)

    async def ask_again(request: ChatRequest) -> str:
        requests.append(request)
        return replies.pop(0)

    return await require_citations(ctx, ScriptedModel(), REQUEST, answer, ask_again), requests


async def test_an_answer_without_citations_is_requested_once_more() -> None:
    answer, (request,) = await run_check("<think>[ID:61]</think>Water [ID:62].", "Water [ID:61].")
    assert answer == "Water [ID:61]."
    assert request.messages[1] == {"role": "assistant", "content": "Water [ID:62]."}
    assert "Rice needs water." in request.messages[2]["content"]


async def test_a_second_answer_without_citations_is_an_error() -> None:
    with pytest.raises(ComponentError, match="does not cite any"):
        await run_check("Water.", "Still water.")
