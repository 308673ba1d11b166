from __future__ import annotations

from typing import Any

from ragflow_lg.components.llm import llm
from ragflow_lg.context import EventSink, RunContext, TurnContext
from ragflow_lg.events import Delta, EngineEvent
from ragflow_lg.ids import NodeId
from ragflow_lg.model_call import Show, ask, request_of
from ragflow_lg.plan import Plan, PlanNode
from ragflow_lg.services import ChatRequest, ToolCall
from tests.fakes.run import bind
from tests.fakes.services import Reply, ScriptedModel, fake_services

HELLO = ChatRequest("", ({"role": "user", "content": "hello"},))


def context(params: dict[str, Any] | None = None) -> tuple[RunContext, EventSink]:
    node = PlanNode(NodeId("m"), llm, bind(llm, params or {}), "", 0, "")
    plan = Plan("", NodeId("m"), {NodeId("m"): node}, {})
    sink = EventSink()
    state = {"globals": {"sys.query": "q"}, "history": [["user", "q"]]}
    return RunContext(plan, node, TurnContext(fake_services(), sink), state), sink


async def shown(sink: EventSink) -> list[tuple[str, str]]:
    sink.close()
    events: list[EngineEvent] = await sink.take()
    return [(event.text, event.mark) for event in events if isinstance(event, Delta)]


async def test_every_call_of_a_visit_is_counted() -> None:
    ctx, _ = context()
    model = ScriptedModel([Reply("a"), Reply("b")])
    await ask(ctx, model, HELLO)
    await ask(ctx, model, HELLO, Show(ctx))
    assert ctx.usage.calls == 2


async def test_calls_come_beside_the_text_and_thoughts_of_the_engine_make_one_section() -> None:
    ctx, sink = context()
    show = Show(ctx)
    calls = [{"name": "look", "arguments": {"q": 1}}]
    answer = await ask(ctx, ScriptedModel([Reply("Looking. ", calls=calls)]), HELLO, show)
    assert answer.calls == (ToolCall("call_1", "look", '{"q": 1}'),)
    assert answer.text == "Looking. "
    for text in ("one", "two"):
        await show.thought(text)
    await show.end_thought()
    await show.end_thought()
    assert show.text == ctx.partial["content"] + "<think>onetwo</think>" == "Looking. <think>onetwo</think>"
    assert await shown(sink) == [("Looking.", ""), (" ", ""), ("", "start"), ("one", ""), ("two", ""), ("", "end")]


def test_a_model_that_knows_schemas_is_not_told_in_its_prompt() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {}}}
    ctx, _ = context()
    for knows in (True, False):
        request = request_of(ctx, ctx.node.params, ScriptedModel(has_schemas=knows), schema=schema)  # type: ignore[arg-type]
        assert (request.schema == schema) is knows
        assert ("JSON schema" in request.system) is not knows


def test_guidelines_give_way_to_a_section_of_the_canvas() -> None:
    ctx, _ = context({"sys_prompt": "Be kind."})
    assert request_of(ctx, ctx.node.params, ScriptedModel(), guidelines="Cite.").system == "Be kind.\n\nCite."  # type: ignore[arg-type]
    ctx, _ = context({"sys_prompt": "Be kind.<CITATION_GUIDELINES>Mine.</CITATION_GUIDELINES>"})
    assert request_of(ctx, ctx.node.params, ScriptedModel(), guidelines="Cite.").system == "Be kind.\n\nMine."  # type: ignore[arg-type]
