"""Every style asks for answers that are read, with the same results."""

import re
from typing import Any

from ragflow_lg.components.agent import with_standalone_question
from ragflow_lg.components.categorize import categorize
from ragflow_lg.components.llm import llm
from ragflow_lg.models.citations import find_known_citations
from ragflow_lg.models.metadata_filter import FilterCondition
from ragflow_lg.models.prompt_texts import STYLES, chosen_text
from ragflow_lg.models.search_prompts import choose_conditions, translate_question
from ragflow_lg.services.chat import ChatRequest
from ragflow_lg.services.references import build_chunks, citation_number
from tests.fakes.agents import WIKI, play_agent, tool_calls
from tests.fakes.run import run_component
from tests.fakes.services import OneModel, Reply, ScriptedModel, fake_services
from tests.harness.rows import each_row
from tests.ragflow_lg.models.test_search_prompts import context

SLOT = re.compile(r"\{[a-z_]+\}")


def asked(style: str, model: ScriptedModel, *names: str) -> list[bool]:
    """Return whether each request contains the text of its prompt in the style, with values in its placeholders."""
    found: list[bool] = []
    for name, (_, request) in zip(names, model.requests, strict=True):
        text = "\n".join([request.system, *(str(message["content"]) for message in request.messages)])
        pieces = SLOT.split(chosen_text({"style": style}, name)) if name else []
        pattern = ".*".join(re.escape(piece.strip()) for piece in pieces)
        found.append(re.search(pattern, text, re.DOTALL) is not None)
    return found


def services(style: str, model: ScriptedModel) -> Any:
    return fake_services(models=OneModel(model), prompts={"style": style})


CATEGORIES: dict[str, Any] = {
    "bills": {"description": "money", "examples": ["a refund,\nplease"], "to": ["pay"]},
    "other": {"to": ["talk"]},
}


@each_row("style", STYLES)
async def test_categorize(style: str) -> None:
    model = ScriptedModel([Reply("bills"), Reply('USER: "Hi" → other')])
    for name in ("bills", "other"):
        params = {"category_description": CATEGORIES}
        result = await run_component(
            categorize, params, services=services(style, model), globals={"sys.query": "Hi"}, history=[["user", "Hi"]]
        )
        assert result.outputs["category_name"] == name
    assert asked(style, model, "categorize", "categorize") == [True, True]
    question = model.requests[0][1].messages[0]["content"]
    assert 'USER: "Hi"' in question
    assert question.startswith(chosen_text({"style": style}, "categorize_message").partition("{")[0])


async def test_categories_in_ragflows_form() -> None:
    model = ScriptedModel([Reply("bills")])
    await run_component(
        categorize, {"category_description": CATEGORIES}, services=services("ragflow", model), globals={"sys.query": ""}
    )
    system = model.requests[0][1].system
    parts = [
        " - bills\n - other\n",
        "------\nCategory: bills\nDescription: money\n",
        'USER: "a refund, please" → bills',
    ]
    assert [system.index(part) for part in parts] == sorted(system.index(part) for part in parts)


@each_row("style", STYLES)
async def test_structured_answers(style: str) -> None:
    schema = {"type": "object", "properties": {"done": {"type": "boolean"}}, "required": ["done"]}
    params = {"outputs": {"structured": schema}, "max_retries": 1, "delay_after_error": 0}
    model = ScriptedModel([Reply('{"done": "yes"}'), Reply('```json\n{"done": true}\n```')])
    result = await run_component(llm, params, services=services(style, model), globals={"sys.query": "q"})
    assert result.outputs["structured"] == {"done": True}
    assert asked(style, model, "structured_output", "structured_output_correction") == [True, True]


LOOK = tool_calls(("wikipedia_search_0", {"query": "Laos"}))
FOUND = build_chunks([("Laos", "http://wiki.test/Laos", "Vientiane is the capital.", 1.0)])
NUMBER = citation_number(str(FOUND[0]["chunk_id"]))


@each_row("style", STYLES)
async def test_citations(style: str) -> None:
    replies = [LOOK, Reply("It is Vientiane."), Reply(f"It is Vientiane [ID:{NUMBER}].")]
    turn = await play_agent(replies, {"cite": True}, services={"prompts": {"style": style}})
    assert turn.run.answer == f"It is Vientiane [ID:{NUMBER}]."
    assert asked(style, turn.model, "", "citation_guidelines", "add_citations") == [True] * 3
    assert find_known_citations(turn.run.answer, {"chunks": {str(NUMBER): {}}})


PLAN = '[{"name": "wikipedia_search_0", "arguments": {"query": "Laos"}}]<|stop|>'
COMPLETE = '[{"name": "complete_task", "arguments": {"answer": "Vientiane"}}]<|stop|>'


@each_row("style", STYLES)
async def test_plan_and_reflect(style: str) -> None:
    replies = [Reply("LOW"), Reply(PLAN), Reply("Sum: 4"), Reply(COMPLETE), Reply("Vientiane.")]
    params = {"strategy": "plan_and_reflect", "sys_prompt": "Be kind.", "tools": [WIKI]}
    turn = await play_agent(replies, params, services={"prompts": {"style": style}})
    assert turn.run.answer.endswith("Vientiane.")
    assert [call["results"] for call in turn.outputs["use_tools"]] != []
    names = ("task_analysis", "plan_generation", "reflection", "plan_generation", "final_answer")
    assert asked(style, turn.model, *names) == [True] * 5
    for _, request in turn.model.requests[:4]:
        assert request.system.count("Be kind.") == 1
    for _, request in (turn.model.requests[1], turn.model.requests[3]):
        assert request.system.count("Available tools:") == request.system.count("\nLOW") == 1
        assert request.messages[-1]["content"].endswith(chosen_text({"style": style}, "plan_request"))
        assert SLOT.findall(request.system) == []


@each_row("style", STYLES)
async def test_a_question_of_a_longer_conversation(style: str) -> None:
    ctx, model = context(Reply("Who is Kim?"), {"style": style})
    roles = ("user", "assistant", "user", "assistant", "user")
    asked_before = ChatRequest("", tuple({"role": role, "content": "Kim?"} for role in roles))
    request = await with_standalone_question(ctx, model, asked_before)
    assert request.messages[-1]["content"] == "Who is Kim?"
    assert asked(style, model, "standalone_question") == [True]


@each_row("style", STYLES)
async def test_searches(style: str) -> None:
    answer = '{"logic": "and", "conditions": [{"key": "by", "op": "in", "value": ["Kim", "Lee"]}]}'
    ctx, model = context(Reply(answer), {"style": style})
    conditions, any_of = await choose_conditions(ctx, "By Kim or Lee?", {"by": {"Kim": ["d"]}}, {"by": "in"})
    assert (conditions, any_of) == ([FilterCondition("by", "in", ["Kim", "Lee"])], False)
    assert asked(style, model, "metadata_filter") == [True]
    ctx, model = context(Reply('**Output:**\n["thé"]'), {"style": style})
    assert await translate_question(ctx, "tea", ["French"]) == "tea\nthé"
    assert asked(style, model, "translation") == [True]
