"""The order of wire events for a given order of engine events."""

import time
from typing import Any

from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.thinking import as_aside
from ragflow_lg.component.context import RunContext
from ragflow_lg.component.events import (
    AnswerDiscarded,
    Delta,
    EngineEvent,
    MessagePiece,
    NodeFinished,
    NodeStarted,
    TurnFinished,
    TurnStarted,
)
from ragflow_lg.component.plan import Plan
from ragflow_lg.component.turn_context import TurnContext
from ragflow_lg.engine.message_preview import preview_messages
from ragflow_lg.runs.wire.message_order import MessageOrder
from ragflow_lg.runs.wire.wire_events import Message, MessageReset
from tests.fakes.canvas import canvas, node, plan_of, text
from tests.fakes.services import fake_services


def llm(*downstream: str) -> dict[str, Any]:
    return node("LLM", {"prompts": "x"}, downstream)


def message(content: str, *downstream: str) -> dict[str, Any]:
    return node("Message", {"content": [content]}, downstream)


class WireLog:
    """Feeds engine events and collects their wire events in short form."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._message_order = MessageOrder(plan, created_at=0)
        self.out: list[str] = []
        self.feed(TurnStarted({"sys.query": "q"}, {}, 0))
        self.out.clear()

    def feed(self, *events: EngineEvent) -> list[str]:
        start = len(self.out)
        for event in events:
            for frame in self._message_order.feed(self._with_previews(event)):
                if isinstance(frame, Message):
                    mark = "<" if frame.start_to_think else ">" if frame.end_to_think else ""
                    self.out.append(mark or repr(frame.content))
                elif isinstance(frame, MessageReset):
                    self.out.append(f"reset {frame.content!r}")
                else:
                    self.out.append(f"{frame.event.replace('node_', '')} {getattr(frame, 'component_id', '')}".strip())
        return self.out[start:]

    def _with_previews(self, event: EngineEvent) -> EngineEvent:
        """Add what the Messages after a model show, as the model's visit does."""
        if not isinstance(event, NodeStarted):
            return event
        node, turn = self._plan.nodes[event.node], TurnContext(fake_services())
        ctx = RunContext(self._plan, node, turn, {})
        return event._replace(previews=preview_messages(ctx, {}) if ctx.is_streaming else None)


def start(id_: str) -> NodeStarted:
    return NodeStarted(NodeId(id_), 0)


def end(id_: str, targets: tuple[str, ...] = (), error: str | None = None, **more: Any) -> NodeFinished:
    outputs = {"content": more.pop("content", "")}
    return NodeFinished(NodeId(id_), 0, 0, {}, outputs, error, tuple(map(NodeId, targets)), **more)


def delta(id_: str, text_: str, mark: Any = "") -> Delta:
    return Delta(NodeId(id_), text_, mark)


def aside(id_: str, thought: str) -> list[Delta]:
    return [delta(id_, part.text, part.mark)._replace(is_aside=True) for part in as_aside(thought)]


def piece(id_: str, segment: int, text_: str, model: str = "") -> MessagePiece:
    return MessagePiece(NodeId(id_), segment, text_, NodeId(model) if model else None)


def test_a_message_opens_with_the_first_delta_of_its_model() -> None:
    log = WireLog(plan_of(canvas({"g": llm("m"), "m": message("a{g@content}z")})))
    assert log.feed(start("g")) == ["started g"]
    assert log.feed(delta("g", "1")) == ["started m", "'a'", "'1'"]
    assert log.feed(delta("g", "2")) == ["'2'"]
    assert log.feed(end("g", ("m",), content="12")) == ["'z'"]
    assert log.feed(start("m"), piece("m", 0, "a"), piece("m", 1, "12"), piece("m", 2, "z")) == []
    assert log.feed(end("m")) == ["message_end", "finished g", "finished m"]


def test_a_long_answer_takes_time_in_proportion_to_its_length() -> None:
    log = WireLog(plan_of(canvas({"l": llm("m"), "m": message("{l@content}")})))
    log.feed(start("l"))
    began = time.process_time()
    log.feed(*(delta("l", "word " * 80) for _ in range(20_000)))
    assert time.process_time() - began < 2
    assert log.out.count(repr("word " * 80)) == 20_000


def discard(id_: str) -> AnswerDiscarded:
    return AnswerDiscarded(NodeId(id_))


def test_a_model_that_starts_again_replaces_what_was_shown() -> None:
    plan = plan_of(canvas({"a": llm("m"), "b": llm("m"), "m": message("x{a@content}y{b@content}z")}, ["a", "b"]))
    log = WireLog(plan)
    log.feed(start("a"), start("b"), delta("a", "", "start"), delta("a", "hm"), delta("a", "", "end"), delta("a", "A"))
    log.feed(end("a", ("m",), content="<think>hm</think>A"))
    shown = log.feed(delta("b", "", "start"), delta("b", "B"))
    assert shown[-2:] == ["<", "'B'"]
    assert log.feed(discard("b")) == [">", "reset 'x<think>hm</think>Ay'"]
    assert log.feed(delta("b", "C"), end("b", ("m",), content="C")) == ["'C'", "'z'"]
    assert log.feed(start("m"), end("m"))[0] == "message_end"


def test_what_turns_out_to_be_thinking_is_replaced() -> None:
    plan = plan_of(canvas({"a": llm("m"), "b": llm("m"), "m": message("x{a@content}y{b@content}z")}, ["a", "b"]))
    log = WireLog(plan)
    log.feed(start("a"), start("b"), delta("a", "hm"))
    shown = log.feed(discard("a"), *aside("a", "hm"), delta("a", "A"), end("a", ("m",), content="A"))
    assert shown == ["reset 'x'", "<", "'hm'", ">", "'A'", "'y'"]
    shown = log.feed(delta("b", "so"), discard("b"), *aside("b", "so"), delta("b", "B"), end("b", ("m",), content="B"))
    assert shown == ["'so'", "reset 'x<think>hm</think>Ay'", "<", "'so'", ">", "'B'", "'z'"]
    pieces = [piece("m", 0, "x"), piece("m", 1, "A", "a"), piece("m", 2, "y"), piece("m", 3, "B", "b")]
    assert log.feed(start("m"), *pieces, piece("m", 4, "z"), end("m"))[0] == "message_end"


def test_open_thinking_is_ended_with_its_text() -> None:
    ends = ((end("g", ("m",), content="<think>hm"), "'z'"), (end("g", error="lost", is_halting=True), "message_end"))
    for event, shown in ends:
        log = WireLog(plan_of(canvas({"g": llm("m"), "m": message("{g@content}z")})))
        log.feed(start("g"), delta("g", "", "start"), delta("g", "hm"))
        assert log.feed(event)[:2] == [">", shown]


def test_two_models_into_one_message_keep_the_order_of_its_text() -> None:
    plan = plan_of(canvas({"a": llm("m"), "b": llm("m"), "m": message("{b@content}|{a@content}")}, ["a", "b"]))
    log = WireLog(plan)
    log.feed(start("a"), start("b"))
    assert log.feed(delta("a", "A1")) == ["started m"]
    assert log.feed(delta("b", "B1")) == ["'B1'"]
    assert log.feed(end("b", ("m",), content="B1")) == ["'|'", "'A1'"]
    assert log.feed(delta("a", "A2"), end("a", ("m",), content="A1A2")) == ["'A2'"]
    log.feed(start("m"))
    assert log.feed(end("m")) == ["message_end", "finished a", "finished b", "finished m"]


def test_one_model_into_two_messages_streams_into_the_first() -> None:
    log = WireLog(plan_of(canvas({"g": llm("m", "n"), "m": message("{g@content}"), "n": message("{g@content}")})))
    log.feed(start("g"))
    ends = log.feed(delta("g", "1"), delta("g", "2"), end("g", ("m", "n"), content="12"))
    assert ends == ["started m", "'1'", "'2'"]
    assert log.feed(start("m"), start("n"), piece("n", 0, "12")) == ["started n"]
    assert log.feed(end("n")) == []
    assert log.feed(end("m")) == ["message_end", "finished g", "finished m", "'12'", "message_end", "finished n"]


def test_a_longer_branch_delays_the_message() -> None:
    components = {"g": llm("m"), "t": text(["u"]), "u": text(["m"]), "m": message("{g@content}")}
    log = WireLog(plan_of(canvas(components, ["g", "t"])))
    log.feed(start("g"), start("t"))
    assert log.feed(delta("g", "1"), end("g", ("m",), content="1"), end("t", ("u",))) == ["finished t"]
    log.feed(start("u"), end("u", ("m",)), start("m"))
    assert log.feed(piece("m", 0, "1"), end("m")) == ["'1'", "message_end", "finished g", "finished m"]


def test_a_dead_branch_does_not_delay_the_message() -> None:
    params = {"query": "sys.query", "exception_method": "goto", "exception_goto": ["h"]}
    components = {"g": llm("m"), "l": node("ListOperations", params, ["m"]), "m": message("{g@content}"), "h": text()}
    log = WireLog(plan_of(canvas(components, ["g", "l"])))
    log.feed(start("g"), start("l"))
    assert log.feed(delta("g", "1")) == []
    assert log.feed(end("l", ("h",), "boom")) == ["finished l", "started m", "'1'"]


def test_thinking_is_marked_in_streamed_and_in_stored_text() -> None:
    log = WireLog(plan_of(canvas({"g": llm("m"), "m": message("{g@content}{g@content}")})))
    log.feed(start("g"))
    stored = "<think>t</think>A"
    thought = (delta("g", "", "start"), delta("g", "t"), delta("g", "", "end"))
    shown = log.feed(*thought, delta("g", "A"), end("g", ("m",), content=stored))
    assert shown == ["started m", "<", "'t'", ">", "'A'"]
    pieces = (piece("m", 0, stored, "g"), piece("m", 1, stored))
    assert log.feed(start("m"), *pieces) == ["<", "'t'", ">", "'A'"]


def test_a_default_follows_the_streamed_part_of_a_broken_answer() -> None:
    log = WireLog(plan_of(canvas({"g": llm("m"), "m": message("{g@content}z")})))
    log.feed(start("g"), delta("g", "par"))
    assert log.feed(delta("g", "default"), end("g", ("m",), content="default")) == ["'default'", "'z'"]
    log.feed(start("m"), piece("m", 0, "pardefault", "g"))
    assert log.feed(piece("m", 1, "z"), end("m")) == ["message_end", "finished g", "finished m"]


def test_two_messages_are_never_interleaved() -> None:
    components = {"a": llm("m"), "b": llm("n"), "m": message("{a@content}"), "n": message("{b@content}")}
    log = WireLog(plan_of(canvas(components, ["a", "b"])))
    log.feed(start("a"), start("b"))
    assert log.feed(delta("a", "1"), delta("b", "x"), delta("a", "2")) == ["started m", "'1'", "'2'"]
    log.feed(end("b", ("n",), content="x"), end("a", ("m",), content="12"), start("m"), start("n"))
    assert log.feed(piece("n", 0, "x"), end("n")) == []
    assert log.feed(end("m"))[-4:] == ["'x'", "message_end", "finished b", "finished n"]


def test_a_failure_and_a_cancellation_end_open_messages() -> None:
    log = WireLog(plan_of(canvas({"g": llm("m"), "m": message("a{g@content}z")})))
    log.feed(start("g"), delta("g", "1"))
    assert log.feed(end("g", (), "cut", is_halting=True)) == ["message_end", "finished m", "finished g"]
    assert log.feed(TurnFinished("failed", {}, "cut")) == []
    log = WireLog(plan_of(canvas({"g": llm("m"), "m": message("{g@content}")})))
    log.feed(start("g"), delta("g", "1"))
    assert log.feed(TurnFinished("cancelled", {}, "x")) == ["message_end", "finished m", "workflow_finished"]


def test_parallel_rounds_are_told_apart() -> None:
    log = WireLog(plan_of(canvas({"g": llm("m"), "m": message("a{g@content}z")})))

    def at(place: str, *events: EngineEvent) -> list[str]:
        return log.feed(*(event._replace(place=place) for event in events))  # pyright: ignore[reportCallIssue, reportAttributeAccessIssue, reportArgumentType, reportUnknownArgumentType, reportUnknownMemberType]

    at("0", start("g"))
    at("1", start("g"))
    assert at("0", delta("g", "1")) == ["started m", "'a'", "'1'"]
    assert at("1", delta("g", "x"), end("g", ("m",), content="x"), start("m")) == ["started m"]
    assert at("1", piece("m", 0, "a"), piece("m", 1, "x", "g"), piece("m", 2, "z"), end("m")) == []
    assert at("0", delta("g", "2"), end("g", ("m",), content="12")) == ["'2'", "'z'"]
    ends = ["message_end", "finished g", "finished m"]
    assert at("0", start("m"), end("m")) == [*ends, "'a'", "'x'", "'z'", *ends]


def test_a_text_that_is_not_final_waits_for_the_message() -> None:
    components = {"g": llm("m"), "t": text(), "m": message("a{t@result}:{g@content}")}
    log = WireLog(plan_of(canvas(components, ["g", "t"])))
    assert log.feed(start("g"), start("t"), delta("g", "1")) == ["started g", "started t", "started m", "'a'"]
    assert log.feed(end("g", ("m",), content="1"), end("t"), start("m"), piece("m", 0, "a")) == ["finished t"]
    assert log.feed(piece("m", 1, "T"), piece("m", 2, ":"), piece("m", 3, "1", "g")) == ["'T'", "':'", "'1'"]
