import asyncio
from typing import Any

import pytest
from msgspec.structs import force_setattr

from ragflow_lg.components.canvas import canvas as component
from ragflow_lg.engine import compiled_canvas
from ragflow_lg.engine.canvas_call import parameter_schema, takes_query
from ragflow_lg.services.tool_policies import ToolPermits, ToolPolicies
from tests.fakes.agents import WIKI, AgentTurn, play_agent, tool_calls
from tests.fakes.canvas import canvas, node, plan_of, switch, text
from tests.fakes.policies import Canvases, catalog_with, entry
from tests.fakes.regions import runner_of
from tests.fakes.services import OneModel, Reply, ScriptedModel, fake_services
from tests.harness.rows import each_row

TOOL = entry("Canvas", canvas="c", description="Ask the archive.")


def begin(fields: dict[str, Any], mode: str = "conversational") -> dict[str, Any]:
    return node("Begin", {"mode": mode, "inputs": fields}, ["m"])


def field(type: str = "line", *, optional: bool = False, **more: Any) -> dict[str, Any]:
    return {"name": f"The {type}", "type": type, "optional": optional, **more}


FORM = {
    "city": field(),
    "days": field("integer", optional=True),
    "share": field("number", optional=True),
    "sure": field("boolean", optional=True),
    "size": field("options", options=["S", "L"], optional=True),
    "more": field("object", optional=True),
    "scan": field("file", optional=True),
}


async def call_canvas(components: dict[str, Any], arguments: Any, *inner: Reply, **more: Any) -> AgentTurn:
    replies = [tool_calls(("Canvas_0", arguments)), *inner, Reply("ok")]
    turn = await play_agent(
        replies, {"tools": [TOOL]}, deployment=Canvases({"c": canvas(components)}), is_shown=False, **more
    )
    assert turn.run.status == "succeeded", turn.run.error
    return turn


def test_the_fields_and_the_query_are_arguments() -> None:
    plan = plan_of(canvas({"begin": begin(FORM), "m": node("Message", {"content": "x"})}))
    schema = parameter_schema(plan)
    assert {name: schema["type"] for name, schema in schema["properties"].items()} == {
        "query": "string",
        "city": "string",
        "days": "integer",
        "share": "number",
        "sure": "boolean",
        "size": "string",
        "more": "object",
    }
    assert schema["required"] == ["query", "city"]
    assert schema["properties"]["size"]["enum"] == ["S", "L"]
    assert schema["properties"]["city"]["description"] == "The line"


def test_a_task_canvas_takes_no_query() -> None:
    plan = plan_of(canvas({"begin": begin({"city": field()}, "task"), "m": node("Message", {"content": "x"})}))
    assert not takes_query(plan)
    assert list(parameter_schema(plan)["properties"]) == ["city"]


@each_row(
    ("arguments", "message"),
    [
        ({}, "'The line' (city) is required. 'query' is required and must be text."),
        ({"query": " ", "city": "x"}, "'query' is required"),
        ({"query": "q", "city": "x", "days": "many"}, "(days) should be a whole number, not 'many'."),
        ({"query": "q", "city": "x", "size": "XL"}, "should be one of S, L"),
        ({"query": "q", "city": {"value": "a", "type": "file"}, "unknown": 1}, '{"value": "a", "type": "file"}'),
        ({"query": "q", "city": "Rome", "days": "3", "sure": False}, "q Rome 3 false"),
    ],
)
async def test_arguments_are_checked_against_the_form(arguments: Any, message: str) -> None:
    content = "{sys.query} {begin@city} {begin@days} {begin@sure}"
    turn = await call_canvas({"begin": begin(FORM), "m": node("Message", {"content": [content]})}, arguments)
    assert message in turn.tool_results[0]


async def test_the_model_sees_the_description_of_the_canvas() -> None:
    turn = await call_canvas({"m": node("Message", {"content": "x"})}, {"query": "q"})
    assert turn.model.requests[0][1].tools[0].description == "Ask the archive."


async def test_the_result_is_all_messages_without_thinking() -> None:
    components = {
        "one": node("Message", {"content": ["One {sys.query}."]}, ["l"]),
        "l": node("LLM", {"llm_id": "m@T", "prompts": "p"}, ["two"]),
        "two": node("Message", {"content": ["{l@content}"]}),
    }
    turn = await call_canvas(components, {"query": "q"}, Reply("<think>Hm.</think>Two."))
    assert turn.tool_results == ["One q.\n\nTwo."]
    assert turn.run.usage.calls == 3


async def test_structured_outputs_are_part_of_the_result() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    outputs = {"structured": schema}
    last = node("LLM", {"llm_id": "m@T", "prompts": "p", "outputs": outputs})
    turn = await call_canvas({"l": last}, {"query": "q"}, Reply('{"n": 3}'))
    assert turn.tool_results == ['{"structured": {"n": 3}}']
    both = {"m": node("Message", {"content": "Hello."}, ["l"]), "l": last}
    turn = await call_canvas(both, {"query": "q"}, Reply('{"n": 3}'))
    assert turn.tool_results == ['{"answer": "Hello.", "result": {"structured": {"n": 3}}}']


async def test_a_plain_text_output_is_the_result() -> None:
    turn = await call_canvas({"l": node("LLM", {"llm_id": "m@T", "prompts": "p"})}, {"query": "q"}, Reply("Text."))
    assert turn.tool_results == ["Text."]


async def test_the_caller_can_cite_the_chunks_of_the_canvas() -> None:
    components = {"w": node("Wikipedia", {}, ["m"]), "m": node("Message", {"content": ["{w@formalized_content}"]})}
    turn = await call_canvas(components, {"query": "Laos"})
    chunks = turn.state["turn"]["references"]["chunks"].values()
    assert [chunk["content"] for chunk in chunks] == ["Vientiane is the capital."]


async def test_a_failure_is_reported_with_canvas_and_node() -> None:
    failing = {"x": node("LLM", {"llm_id": "m@T", "prompts": "p"})}
    turn = await call_canvas(failing, {"query": "q"}, Reply(error="The model is down."))
    assert turn.tool_results == ["The canvas 'c' failed at 'x': The model is down."]


async def test_each_call_has_its_own_state() -> None:
    components = {
        "v": node(
            "VariableAssigner",
            {"variables": [{"variable": "env.n", "operator": "+=", "parameter": 1}]},
            ["m"],
        ),
        "m": node("Message", {"content": ["{env.n} {sys.conversation_turns} {sys.user_id}"]}),
    }
    document = canvas(components, variables={"n": {"name": "n", "type": "number", "value": 5}})
    call = ("Canvas_0", {"query": "q"})
    turn = await play_agent(
        [tool_calls(call, call), Reply("ok")], {"tools": [TOOL]}, deployment=Canvases({"c": document}), is_shown=False
    )
    assert turn.tool_results == ["6 1 ", "6 1 "]
    assert "env.n" not in turn.state["globals"]


async def test_the_caller_emits_no_events_of_the_canvas() -> None:
    document = canvas({"inner": node("Message", {"content": "inner"})})
    model = ScriptedModel([tool_calls(("Canvas_0", {"query": "q"})), Reply("ok")])
    runner = runner_of(
        {
            "a": node("Agent", {"llm_id": "m@T", "prompts": "p", "tools": [TOOL]}, ["out"]),
            "out": node("Message", {"content": ["{a@content}"]}),
        },
        services=fake_services(models=OneModel(model)),
        deployment=Canvases({"c": document}),
    )
    run = runner.start("s", {"query": "q"})
    events = [getattr(event, "component_id", "") async for event in run]
    assert "inner" not in events
    assert run.answer == "ok"


async def test_the_time_limit_and_cancellation_apply_to_the_canvas() -> None:
    events: list[str] = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            events.append("cancelled")

    inner = canvas({"w": node("Wait", {}, ["m"]), "m": node("Message", {"content": "x"})})
    catalog = catalog_with(Wait=wait)
    force_setattr(component, "timeout_s", 0.05)
    try:
        turn = await play_agent(
            [tool_calls(("Canvas_0", {"query": "q"})), Reply("ok")],
            {"tools": [TOOL]},
            deployment=Canvases({"c": inner}),
            catalog=catalog,
            is_shown=False,
        )
    finally:
        force_setattr(component, "timeout_s", 1200.0)
    assert turn.tool_results == ["Canvas returned no result within 0.05 s."]
    assert events == ["cancelled"]

    hanging = canvas({"l": node("LLM", {"llm_id": "m@T", "prompts": "p"})})
    cancelled = await play_agent(
        [tool_calls(("Canvas_0", {"query": "q"})), Reply(hangs=True)],
        {"tools": [TOOL]},
        deployment=Canvases({"c": hanging}),
        is_shown=False,
    )
    assert cancelled.run.status == "cancelled"


async def test_the_tool_policies_apply_to_the_canvas() -> None:
    inner = canvas({"a": node("Agent", {"llm_id": "m@T", "prompts": "p", "tools": [WIKI]})})
    turn = await play_agent(
        [tool_calls(("Canvas_0", {"query": "q"})), tool_calls(("wikipedia_search_0", {"query": "x"})), Reply("ok")],
        {"tools": [TOOL]},
        deployment=Canvases({"c": inner}),
        is_shown=False,
        policies=ToolPolicies(ToolPermits(("canvas:c",))),
    )
    assert turn.http.requests == []


async def test_a_canvas_can_call_a_canvas() -> None:
    one = canvas(
        {
            "a": node("Canvas", {"canvas": "two", "arguments": {"query": "{sys.query}!"}}, ["m"]),
            "m": node("Message", {"content": "<{a@content}>"}),
        }
    )
    two = canvas({"m": node("Message", {"content": "[{sys.query}]"})})
    turn = await play_agent(
        [tool_calls(("Canvas_0", {"query": "q"})), Reply("ok")],
        {"tools": [TOOL]},
        deployment=Canvases({"c": one, "two": two}),
        is_shown=False,
    )
    assert turn.tool_results == ["<[q!]>"]


async def test_an_endless_cycle_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_canvas, "CYCLE_STEPS", 20)
    turn = await call_canvas({"a": text(["s"]), "s": switch(["a"], ["b"]), "b": text()}, {"query": "q"})
    assert "repeated a cycle too often" in turn.tool_results[0]
