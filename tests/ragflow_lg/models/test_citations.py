from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.context import RunContext
from ragflow_lg.component.plan import Plan, PlanNode
from ragflow_lg.component.turn_context import TurnContext
from ragflow_lg.components.llm import llm
from ragflow_lg.models.citations import (
    CitationFilter,
    build_citation_prompt,
    find_known_citations,
    strip_unknown_citations,
)
from ragflow_lg.services.chat import ChatRequest
from tests.fakes.prompts import head_of
from tests.fakes.run import bind
from tests.fakes.services import fake_services
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
