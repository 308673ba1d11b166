"""What a model's visit shows of the Messages after it."""

from typing import Any

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.context import RunContext
from ragflow_lg.component.events import Preview, StreamedSegment
from ragflow_lg.component.turn_context import TurnContext
from ragflow_lg.engine.message_preview import preview_messages
from tests.fakes.canvas import canvas, node, plan_of, text
from tests.fakes.services import fake_services


def preview(content: list[str], state: dict[str, Any], message: str = "m") -> Preview | None:
    components = {
        "t": text(["llm"]),
        "llm": node("LLM", {}, ["m", "other"]),
        "m": node("Message", {"content": content}),
        "other": node("Message", {"content": ["nothing of it"]}),
    }
    plan = plan_of(canvas(components, ["t"]))
    ctx = RunContext(plan, plan.nodes[NodeId("llm")], TurnContext(fake_services()), state)
    return (preview_messages(ctx, state) or {}).get(NodeId(message))


def test_texts_and_values_are_rendered_and_the_answer_is_awaited() -> None:
    state = {"outputs": {"t": {"result": "T"}}, "globals": {"sys.query": "q"}}
    content = "{sys.query}-{t@result}:{llm@content}|{llm@content}"
    assert preview([content], state) == ("q", "-", "T", ":", StreamedSegment(NodeId("llm"), ""), "|", None)


def test_a_message_that_does_not_show_the_answer_has_no_preview() -> None:
    assert preview(["{llm@content}"], {}, "other") is None


def test_the_alternative_is_the_one_that_the_message_chooses() -> None:
    content = ["{llm@content}", "{t@result}{llm@content}"]
    ran = {"outputs": {"t": {"result": "T"}}, "turn": {"seed": 1}}
    plan_seeds = {seed: preview(content, {**ran, "turn": {"seed": seed}}) for seed in range(1, 9)}
    assert {len(found or ()) for found in plan_seeds.values()} == {1, 2}
    assert len(preview(content, {"turn": {"seed": 0}}) or ()) == 1
