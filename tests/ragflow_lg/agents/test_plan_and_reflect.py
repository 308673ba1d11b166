import json
from typing import Any

from ragflow_lg.models.prompt_texts import PROMPTS
from tests.fakes.agents import TOOLS, WIKI, page, play_agent
from tests.fakes.prompts import GUIDELINES
from tests.fakes.services import Reply, ScriptedModel
from tests.harness.rows import each_row

TOOL: dict[str, Any] = {"component_name": "LookUp", "name": "LookUp", "params": {}}
PLAN: dict[str, Any] = {"strategy": "plan_and_reflect", "tools": [TOOL]}


def plan(*names: str, query: str = "Laos", tool: str = "look_up_0") -> Reply:
    calls: list[dict[str, Any]] = [{"name": name, "arguments": {}} for name in names]
    return Reply(json.dumps([{"name": tool, "arguments": {"query": query}}, *calls] if query else calls))


COMPLETE = plan("complete_task", query="")
STEPS = ("TASK_ANALYSIS", "PLAN_GENERATION", "REFLECTION", "PLAN_GENERATION")


async def test_earlier_steps_are_thoughts_and_the_answer_is_shown() -> None:
    replies = [Reply("A capital is asked for."), plan(), Reply("Found."), COMPLETE, Reply("Vientiane.")]
    turn = await play_agent(replies, {**PLAN, "cite": True}, catalog=TOOLS)
    thoughts = "A capital is asked for.\nRunning the look_up_0 tool...Found.\n"
    assert turn.outputs["content"] == f"<think>{thoughts}</think>Vientiane."
    systems = [request.system for _, request in turn.model.requests]
    for system, name in zip(systems, STEPS, strict=False):
        assert system.startswith(PROMPTS[name.lower()].text)
    assert systems[4] == GUIDELINES
    last: Any = turn.model.requests[4][1].messages
    assert [message["role"] for message in last] == ["user", "assistant", "user", "assistant", "user"]
    assert "Reflection:\nFound." in last[2]["content"]
    assert last[-1]["content"].endswith("Be direct and complete.")


async def test_calls_next_to_complete_task_are_made() -> None:
    turn = await play_agent([Reply("Hm."), plan("complete_task"), Reply("Vientiane.")], PLAN, catalog=TOOLS)
    assert turn.run.answer == "Vientiane."
    assert "The capital is Vientiane." in turn.model.requests[-1][1].messages[-1]["content"]


@each_row(
    ("reply", "problem"),
    [
        ("I would look it up.", "Respond with a JSON list of calls"),
        ("[]", "Respond with a JSON list of calls"),
        ('[{"tool": "look_up_0"}]', "Entry 1 in your list has no name"),
        ("[1]", "Entry 1 in your list has no name"),
    ],
)
async def test_an_invalid_plan_costs_a_round_and_is_reported_to_the_model(reply: str, problem: str) -> None:
    turn = await play_agent([Reply("Hm."), Reply(reply), COMPLETE, Reply("A.")], PLAN, catalog=TOOLS)
    assert turn.run.answer == "A."
    assert problem in turn.model.requests[2][1].messages[-1]["content"]


@each_row(
    "reply",
    [
        '{"name": "look_up_0", "arguments": {"query": "Laos"}}',
        '```\n[{"name": "look_up_0", "arguments": "{\\"query\\": \\"Laos\\"}"}]\n```',
        '<think>hm</think>[{"name": "look_up_0", "arguments": {"query": "Laos",}}]<|stop|>',
    ],
)
async def test_plans_are_read_leniently(reply: str) -> None:
    replies = [Reply("Hm."), Reply(reply), Reply("Good."), COMPLETE, Reply("A.")]
    turn = await play_agent(replies, PLAN, catalog=TOOLS, is_shown=False)
    assert [call["arguments"] for call in turn.outputs["use_tools"]] == [{"query": "Laos"}]


async def test_sections_of_the_system_prompt_replace_the_prompts() -> None:
    sections = "".join(f"<{name}>Own {name}.</{name}>" for name in STEPS[:3])
    replies = [Reply("Hm."), plan(), Reply("Good."), COMPLETE, Reply("A.")]
    turn = await play_agent(replies, {**PLAN, "cite": True, "sys_prompt": f"Be kind.{sections}"}, catalog=TOOLS)
    systems = [request.system for _, request in turn.model.requests]
    assert [system.splitlines()[0] for system in systems[:4]] == [f"Own {name}." for name in STEPS]
    assert systems[4] == f"Be kind.\n\n{GUIDELINES}"


async def test_long_results_are_summarized_and_ranked_if_they_do_not_fit() -> None:
    article = {"http://wiki.test": page("Laos", "long " * 3000)}
    summary = "<CONTEXT_SUMMARY>Own summary.</CONTEXT_SUMMARY><CONTEXT_RANKING>Own ranking.</CONTEXT_RANKING>"
    params = {"strategy": "plan_and_reflect", "tools": [WIKI], "sys_prompt": summary}
    look = plan(query="Laos", tool="wikipedia_search_0")
    replies = [
        *(Reply("Hm."), look, Reply("short one " * 180, match="Own summary"), Reply("Good.")),
        *(look, Reply("short two " * 180, match="Own summary"), Reply("Good."), COMPLETE),
        *(Reply("[2, 7, true]", match="Own ranking"), Reply("A.")),
    ]
    model = ScriptedModel(context_tokens=1000)
    turn = await play_agent(replies, params, answers=article, model=model, is_shown=False)
    assert (turn.outputs["content"], turn.model.replies) == ("A.", [])
    last = str(turn.model.requests[-1][1].messages)
    assert ("short one" in last, "short two" in last) == (False, True)


async def test_a_schema_is_requested_for_the_final_answer_only() -> None:
    outputs = {"structured": {"type": "object", "properties": {"city": {"type": "string"}}}}
    for model in (ScriptedModel(has_schemas=True), ScriptedModel()):
        replies = [Reply("Hm."), COMPLETE, Reply('{"city": "A"}')]
        turn = await play_agent(replies, {**PLAN, "outputs": outputs}, catalog=TOOLS, is_shown=False, model=model)
        assert turn.outputs["structured"] == {"city": "A"}
        *others, last = (request for _, request in model.requests)
        assert all(request.schema is None and "JSON schema" not in request.system for request in others)
        assert (last.schema is not None, "JSON schema" in last.system) == (model.has_schemas, not model.has_schemas)
