import json
from typing import Any

from tests.fakes.agents import TOOLS, play_agent
from tests.fakes.prompts import head_of
from tests.fakes.services import Reply, ScriptedModel
from tests.harness.rows import each_row


def call_of(name: str, **arguments: Any) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


LOOK = Reply(call_of("look_up_0", query="Laos"))
TOOL: dict[str, Any] = {"component_name": "LookUp", "name": "LookUp", "params": {}}
REACT: dict[str, Any] = {"strategy": "react", "tools": [TOOL]}


async def test_a_model_without_tool_calls_gets_its_tools_in_the_prompt() -> None:
    params = {"llm_id": "notools@Test", "sys_prompt": "Be brief.", "tools": [TOOL]}
    turn = await play_agent([LOOK, Reply("Vientiane.")], params, catalog=TOOLS)
    first, second = (request for _, request in turn.model.requests)
    assert turn.run.answer == "Vientiane."
    assert first.tools == ()
    assert first.system.startswith("Be brief.\n\n" + head_of("react"))
    assert "- look_up_0: Look up a country or a city." in first.system
    assert [message["role"] for message in second.messages] == ["user", "assistant", "user"]
    assert second.messages[1]["content"] == LOOK.text
    assert second.messages[2]["content"].startswith("Result of look_up_0: \nID: ")


@each_row("piece_chars", [1, 3, 1000])
async def test_calls_are_not_shown(piece_chars: int) -> None:
    model = ScriptedModel(piece_chars=piece_chars)
    turn = await play_agent([LOOK, Reply("It is\n**Vientiane**.")], REACT, catalog=TOOLS, model=model)
    assert turn.run.answer == "It is\n**Vientiane**."
    assert "tool_call" not in (turn.outputs["content"] or "")


@each_row(
    ("text", "says"),
    [
        (call_of("atlas", query="Laos"), "atlas"),
        ("<tool_call>look_up(Laos)</tool_call>", "tool_call"),
        ('Action: look_up_0\nAction Input: {"query": "Laos"}', "That was no call."),
    ],
)
async def test_a_wrong_call_is_explained_to_the_model(text: str, says: str) -> None:
    turn = await play_agent([Reply(text), LOOK, Reply("Vientiane.")], REACT, catalog=TOOLS)
    assert (turn.run.answer or "").endswith("Vientiane.")
    assert says in turn.model.requests[1][1].messages[-1]["content"]


async def test_the_schema_applies_to_the_final_answer_only_even_for_models_with_schemas() -> None:
    outputs = {"structured": {"type": "object", "properties": {"city": {"type": "string"}}}}
    replies = [LOOK, Reply('{"city": "A"}')]
    model = ScriptedModel(has_schemas=True)
    turn = await play_agent(replies, {**REACT, "outputs": outputs}, catalog=TOOLS, is_shown=False, model=model)
    assert turn.outputs["structured"] == {"city": "A"}
    assert all(request.schema is None and "without calls" in request.system for _, request in model.requests)
