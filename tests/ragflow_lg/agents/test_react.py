import asyncio
import json
import time
from dataclasses import dataclass
from typing import Any

import pytest

from ragflow_lg.agents.react import to_tool_call
from ragflow_lg.agents.react_action import WrittenCall
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.services.chat import ChatAnswer, ChatRequest, ToolSchema
from tests.fakes.agents import TOOLS, WIKI, play_agent
from tests.fakes.prompts import head_of
from tests.fakes.regions import play_run as play
from tests.fakes.services import Reply, ScriptedModel
from tests.harness.rows import each_row
from tests.stores import OpenStore

LOOK = Reply('Thought: I look.\nAction: look_up\nAction Input: {"query": "Laos"}')
TOOL: dict[str, Any] = {"component_name": "LookUp", "name": "LookUp", "params": {}}
REACT: dict[str, Any] = {"strategy": "react", "tools": [TOOL]}


async def test_a_model_without_tool_calls_gets_its_tools_in_the_prompt() -> None:
    replies = [LOOK, Reply("Thought: Found.\nFinal Answer: Vientiane.")]
    params = {"llm_id": "notools@Test", "sys_prompt": "Be brief.", "tools": [TOOL]}
    turn = await play_agent(replies, params, catalog=TOOLS)
    first, second = (request for _, request in turn.model.requests)
    assert turn.run.answer == "Vientiane."
    assert first.tools == ()
    assert first.system.startswith("Be brief.\n\n" + head_of("react"))
    assert "- look_up_0: Look up a country or a city." in first.system
    assert [message["role"] for message in second.messages] == ["user", "assistant", "user"]
    assert second.messages[1]["content"] == LOOK.text
    assert second.messages[2]["content"].startswith("Observation: \nID: ")


async def test_thoughts_are_shown_as_thoughts_without_markers() -> None:
    replies = [LOOK, Reply("Thought: Found.\nFinal Answer: It is\n**Vientiane**.\n")]
    for piece_chars in (1, 3, 1000):
        model = ScriptedModel(piece_chars=piece_chars)
        turn = await play_agent(list(replies), REACT, catalog=TOOLS, model=model)
        thoughts = "I look.\nRunning the look_up_0 tool...Found."
        assert turn.outputs["content"] == f"<think>{thoughts}</think>It is\n**Vientiane**."


async def test_thinking_sections_of_the_model_are_thoughts() -> None:
    first = Reply(LOOK.text, reasoning="Hm. ")
    turn = await play_agent([first, Reply("<think>Aha.</think>Final Answer: A.")], REACT, catalog=TOOLS)
    assert turn.run.answer == "A."
    assert "Hm. " in turn.outputs["content"]
    assert "Aha." not in turn.run.answer


async def test_text_after_an_action_is_ignored() -> None:
    wild = Reply(LOOK.text + "\nObservation: It is Paris.\nThought: So.\nFinal Answer: Paris.")
    turn = await play_agent([wild, Reply("Final Answer: Vientiane.")], REACT, catalog=TOOLS)
    assert turn.run.answer == "Vientiane."
    assert "Paris" not in str(turn.model.requests[-1][1].messages)


async def test_a_step_without_an_action_or_answer_is_requested_again() -> None:
    turn = await play_agent([Reply("Thought: Hm."), Reply(""), Reply("Final Answer: A.")], REACT, catalog=TOOLS)
    assert turn.run.answer == "A."
    assert "Continue: " in turn.model.requests[-1][1].messages[-1]["content"]


async def test_the_last_round_requests_the_answer_only() -> None:
    turn = await play_agent([LOOK, LOOK, Reply("As far as I know A.")], {**REACT, "max_rounds": 1}, catalog=TOOLS)
    last = turn.model.requests[-1][1]
    assert turn.run.answer == "As far as I know A."
    assert "Write the Final Answer now" in last.messages[-1]["content"]
    assert last.stop == ()


async def test_an_endpoint_that_rejects_stop_words_is_asked_without_them() -> None:
    @dataclass
    class Unstoppable(ScriptedModel):
        async def complete(self, request: ChatRequest) -> ChatAnswer:
            if request.stop:
                raise ServiceError("answered 400: Unsupported parameter: 'stop'")
            return await super().complete(request)

    turn = await play_agent(
        [LOOK, Reply("Final Answer: A.")], REACT, catalog=TOOLS, is_shown=False, model=Unstoppable()
    )
    assert turn.outputs["content"] == "A."
    assert len(turn.model.requests) == 2


async def test_any_other_error_of_the_endpoint_is_an_error() -> None:
    turn = await play_agent([Reply(error="answered 400: no credit")], REACT, catalog=TOOLS, is_shown=False)
    assert "no credit" in (turn.run.error or "")


async def test_the_schema_applies_to_the_final_answer_only_even_for_models_with_schemas() -> None:
    outputs = {"structured": {"type": "object", "properties": {"city": {"type": "string"}}}}
    model = ScriptedModel(has_schemas=True)
    turn = await play_agent(
        [LOOK, Reply('Final Answer: {"city": "A"}')],
        {**REACT, "outputs": outputs},
        catalog=TOOLS,
        is_shown=False,
        model=model,
    )
    assert turn.outputs["structured"] == {"city": "A"}
    assert all(request.schema is None and "after `Final Answer:`" in request.system for _, request in model.requests)


async def test_completed_steps_are_not_repeated_when_the_turn_resumes(reopen: OpenStore) -> None:
    async with reopen() as store:
        look = Reply(LOOK.text.replace("look_up", "wikipedia_search"))
        first = await play_agent(
            [look, Reply("Thought: Vien", hangs=True)], {"strategy": "react", "tools": [WIKI]}, store=store
        )
        assert (first.run.status, len(first.http.requests)) == ("cancelled", 1)
        first.model.replies.append(Reply("Final Answer: Vientiane."))
        run = first.runner.continue_("s")
        answer, _ = await play(run)
    assert (answer, len(first.model.requests), len(first.http.requests)) == ("Vientiane.", 3, 1)


@pytest.mark.parametrize("is_shown", [False, True])
async def test_a_long_malformed_answer_does_not_block_the_event_loop(is_shown: bool) -> None:
    gaps: list[float] = []

    async def watch() -> None:
        last = time.perf_counter()
        while True:
            await asyncio.sleep(0)
            gaps.append(time.perf_counter() - last)
            last += gaps[-1]

    watching = asyncio.create_task(watch())
    replies, model = [Reply("Action: none\n" * 15_000), Reply("Final Answer: A")], ScriptedModel(piece_chars=1_000_000)
    start = time.perf_counter()
    turn = await play_agent(replies, REACT, catalog=TOOLS, model=model, is_shown=is_shown)
    watching.cancel()
    assert turn.run.status == "succeeded"
    assert max(gaps) < (time.perf_counter() - start) / 2


def schema(name: str, *required: str, **properties: str) -> ToolSchema:
    return ToolSchema(
        name, "", {"properties": {n: {"type": t} for n, t in properties.items()}, "required": list(required)}
    )


@each_row(
    ("name", "text", "tool", "arguments"),
    [
        ("web_search_1", "{}", "web_search_1", {}),
        ("Web Search", "Laos", "web_search_1", {"query": "Laos"}),
        ("search", "Laos", "search_0", {"a": "Laos"}),
        ("search_0 for Laos", "none", "search_0", {}),
        ("search", '["x"]', "search_0", {"a": '["x"]'}),
        ("add", "[1, 2]", "add_2", {"numbers": [1, 2]}),
        ("add", "[1, 2", "add_2", {"numbers": "[1, 2"}),
        ("atlas", "Laos", "atlas", {"input": "Laos"}),
        ("", "", "", {}),
    ],
)
def test_tools_are_found_with_or_without_their_number(
    name: str, text: str, tool: str, arguments: dict[str, object]
) -> None:
    tools = [
        schema("search_0", a="string", b="string"),
        schema("web_search_1", "query", topic="string", query="string"),
        schema("add_2", numbers="array"),
    ]
    call = to_tool_call(WrittenCall(name, text), tools, "1")
    assert (call.name, json.loads(call.arguments)) == (tool, arguments)
