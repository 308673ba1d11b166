import asyncio
from typing import Any

from msgspec.structs import force_setattr

from ragflow_lg.components.canvas import canvas as component
from ragflow_lg.engine.canvas_call import parameter_schema, takes_query
from ragflow_lg.services.tool_policies import ToolPermits, ToolPolicies
from tests.fakes.agents import WIKI, AgentTurn, play_agent, tool_calls
from tests.fakes.canvas import canvas, node, plan_of
from tests.fakes.policies import Canvases, catalog_with, entry
from tests.fakes.services import Reply
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


async def call_canvas(
    components: dict[str, Any],
    arguments: Any = None,
    *inner: Reply,
    canvases: Any = None,
    variables: Any = None,
    **more: Any,
) -> AgentTurn:
    """Play an agent that calls a canvas."""
    replies = [tool_calls(("Canvas_0", {"query": "q"} if arguments is None else arguments)), *inner, Reply("ok")]
    document = canvas(components, **({"variables": variables} if variables else {}))
    deployment = Canvases({"c": document, **(canvases or {})})
    turn = await play_agent(replies, {"tools": [TOOL]}, deployment=deployment, is_shown=False, **more)
    assert turn.run.status == "succeeded", turn.run.error
    return turn


def test_the_fields_and_the_query_are_arguments() -> None:
    plan = plan_of(canvas({"begin": begin(FORM), "m": node("Message", {"content": "x"})}))
    schema = parameter_schema(plan)
    names = ("query", "city", "days", "share", "sure", "size", "more")
    types = ("string", "string", "integer", "number", "boolean", "string", "object")
    assert {name: field["type"] for name, field in schema["properties"].items()} == dict(zip(names, types, strict=True))
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
    add = {"variables": [{"variable": "env.n", "operator": "+=", "parameter": 1}]}
    components = {
        "v": node("VariableAssigner", add, ["m"]),
        "m": node("Message", {"content": ["{env.n} {sys.conversation_turns} {sys.user_id}"]}),
    }
    variables = {"n": {"name": "n", "type": "number", "value": 5}}
    turn = await call_canvas(components, None, tool_calls(("Canvas_0", {"query": "q"})), variables=variables)
    assert turn.tool_results == ["6 1 ", "6 1 "]
    assert "env.n" not in turn.state["globals"]


async def test_the_caller_emits_no_events_of_the_canvas() -> None:
    turn = await call_canvas({"inner": node("Message", {"content": "inner"})})
    turn.model.replies += [tool_calls(("Canvas_0", {"query": "q"})), Reply("ok")]
    events = [getattr(event, "component_id", "") async for event in turn.runner.start("t", {"query": "q"})]
    assert "a" in events
    assert "inner" not in events


async def test_the_time_limit_and_cancellation_apply_to_the_canvas() -> None:
    events: list[str] = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            events.append("cancelled")

    inner = {"w": node("Wait", {}, ["m"]), "m": node("Message", {"content": "x"})}
    force_setattr(component, "timeout_s", 1.0)
    try:
        turn = await call_canvas(inner, catalog=catalog_with(Wait=wait))
    finally:
        force_setattr(component, "timeout_s", 1200.0)
    assert turn.tool_results == ["Canvas returned no result within 1 s."]
    assert events == ["cancelled"]

    hanging = Canvases({"c": canvas({"l": node("LLM", {"llm_id": "m@T", "prompts": "p"})})})
    replies = [tool_calls(("Canvas_0", {"query": "q"})), Reply(hangs=True)]
    cancelled = await play_agent(replies, {"tools": [TOOL]}, deployment=hanging, is_shown=False)
    assert cancelled.run.status == "cancelled"


async def test_the_tool_policies_apply_to_the_canvas() -> None:
    inner = {"a": node("Agent", {"llm_id": "m@T", "prompts": "p", "tools": [WIKI]})}
    look = tool_calls(("wikipedia_search_0", {"query": "x"}))
    turn = await call_canvas(inner, None, look, Reply("ok"), policies=ToolPolicies(ToolPermits(("canvas:c",))))
    assert turn.http.requests == []
