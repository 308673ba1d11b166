"""Conversion of engine events to RAGFlow's wire events. Only this module determines RAGFlow's order.

Three things differ from the execution order. A model's answer is shown live by the Message after it: the Message opens
with the first delta, before its own node runs. Only one Message is open at a time, because ``message`` frames do not
identify their Message. The ``node_finished`` of a streaming model waits for the end of its Message.

The class is pure: no clock, no I/O. It mirrors outputs and globals by reference, so that it can show the text between
two models' answers before the Message itself runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from ragflow_lg.base.errors import CANCELLED_TEXT
from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.thinking import AnswerPart, split_thinking
from ragflow_lg.base.values import JsonValue, to_text
from ragflow_lg.component.events import (
    AgentRecord,
    Delta,
    EngineEvent,
    MessagePiece,
    NodeFinished,
    NodeStarted,
    TurnFinished,
    TurnStarted,
    Waiting,
)
from ragflow_lg.component.plan import STREAMED_OUTPUT, Plan
from ragflow_lg.component.state import look_up
from ragflow_lg.dsl.downloads import message_text
from ragflow_lg.dsl.variable_references import Reference
from ragflow_lg.services.chat import Usage
from ragflow_lg.wire import wire_events as wire


class _Answer(Struct):
    """The answer so far from one execution of a streaming model."""

    deltas: list[Delta] = field(default_factory=list[Delta])
    is_done: bool = False
    shown_by: _Show | None = None


class _Show(Struct, eq=False):
    """A Message while it is shown. ``segments`` is None if the text arrives in one piece."""

    node: NodeId
    segments: tuple[str | Reference, ...] | None
    is_running: bool = False
    """Whether the Message's own node has started; until then, its text is read from the mirror."""
    at: int = 0
    """The next segment to show."""
    shown: int = 0
    """The number of deltas in that segment that have been shown."""
    known: dict[int, str] = field(default_factory=dict[int, str])
    finished: NodeFinished | None = None


class Projection:
    """Converts one turn's engine events to wire events."""

    def __init__(self, plan: Plan, *, created_at: float) -> None:
        self._plan = plan
        self._created_at = created_at
        self._inputs: dict[str, JsonValue] = {}
        self._seed = 0
        self._usage = Usage()
        self._globals: dict[str, JsonValue] = {}
        self._outputs: dict[str, dict[str, JsonValue]] = {}
        self._tokens: dict[str, list[str] | None] = {}
        self._visits: dict[str, int] = {}
        self._answers: dict[NodeId, _Answer] = {}
        self._deferred: dict[NodeId, NodeFinished] = {}
        self._shows: dict[NodeId, _Show] = {}
        self._open: _Show | None = None
        self._ended: set[NodeId] = set()
        """Messages that ended early; further text from their nodes is not shown."""
        self._waiting: dict[NodeId, tuple[str, Mapping[str, Mapping[str, JsonValue]]]] = {}
        self._is_recalled = False
        """Whether nodes unknown to the mirror may have run, in a region that an earlier run entered."""
        self._bodies = {region.item: region.body for region in plan.regions.values() if region.item}

    def feed(self, event: EngineEvent) -> Iterable[wire.WireEvent]:
        """Process one engine event; return the wire events that are due. The caller must consume all of them."""
        match event:
            case NodeStarted():
                return self._on_started(event)
            case NodeFinished():
                return self._on_finished(event)
            case Delta():
                answer = self._answers.setdefault(event.node, _Answer())
                answer.deltas.append(event)
                return self._advance()
            case MessagePiece():
                if show := self._shows.get(event.node):
                    show.known[event.segment] = show.known.get(event.segment, "") + event.text
                    return self._advance()
                return ()
            case TurnStarted():
                self._globals, self._inputs, self._seed = event.globals, event.inputs, event.seed
                return (wire.WorkflowStarted(event.inputs),)
            case Waiting():
                self.wait(event.node, event.tips, event.fields)
                return ()
            case TurnFinished():
                return self._on_turn_finished(event)
            case AgentRecord():
                return ()  # unknown to RAGFlow's clients

    def recall(self, state: Mapping[str, Any]) -> None:
        """Continue a turn that began in an earlier run, from its stored state."""
        self._globals, self._outputs = dict(state.get("globals", {})), dict(state.get("outputs", {}))
        self._seed = state.get("turn", {}).get("seed", 0)
        self._inputs = state.get("turn", {}).get("inputs", {})
        self._visits = dict(state.get("turn", {}).get("visits", {}))
        self._is_recalled = True

    def wait(self, node: str, tips: str, fields: Mapping[str, Mapping[str, JsonValue]]) -> None:
        """Record that a node waits for the user."""
        self._waiting[NodeId(node)] = (tips, fields)

    @property
    def waiting(self) -> bool:
        """Whether any node waits for the user."""
        return bool(self._waiting)

    def user_inputs(self) -> wire.UserInputs:
        """Return the event that asks for input, with the fields of all waiting nodes and the tips of the last one."""
        inputs: dict[str, Any] = {}
        tips = ""
        for node in sorted(self._waiting, key=lambda n: self._plan.nodes[n].rank):
            tips, fields = self._waiting[node]
            inputs.update({name: dict(declared) for name, declared in fields.items()})
        return wire.UserInputs(inputs, tips)

    # Events

    def _on_started(self, event: NodeStarted) -> Iterator[wire.WireEvent]:
        node = event.node
        self._waiting.pop(node, None)
        for inner in self._bodies.get(node, ()):  # another round starts
            self._tokens.pop(inner, None)
            self._ended.discard(inner)
        if self._plan.nodes[node].streams_to:
            self._answers[node] = _Answer()
        show = self._shows.get(node)
        if show is not None and not show.is_running:
            show.is_running = True  # its node_started event was sent when it opened
            return
        if node in self._plan.messages and node not in self._ended:
            self._shows[node] = self._new_show(node, is_running=True)
        yield self._node_started(node, event.created_at)

    def _on_finished(self, event: NodeFinished) -> Iterator[wire.WireEvent]:
        node = event.node
        self._update_mirror(event)
        answer = self._answers.get(node)
        if answer is not None:
            answer.is_done = True
            yield from self._on_model_finished(event, answer)
        elif (show := self._shows.get(node)) is not None:
            show.finished = event
        else:
            self._ended.discard(node)
            if event.fallback:
                self._queue_fallback(event)
            else:
                yield self._node_finished(event)
        yield from self._advance()

    def _on_model_finished(self, event: NodeFinished, answer: _Answer) -> Iterator[wire.WireEvent]:
        if event.error is None:
            # If a default value replaced the answer, it is shown after the text that was already streamed.
            text = to_text(event.outputs.get(STREAMED_OUTPUT))
            if answer.deltas and text != "".join(_tagged_text(delta) for delta in answer.deltas):
                answer.deltas.append(Delta(event.node, text))
            self._deferred[event.node] = event
            return
        if (show := answer.shown_by) is not None and show is self._open:
            yield from self._abort(show)
        if event.fallback:
            self._queue_fallback(event)
        else:
            yield self._node_finished(event)

    def _on_turn_finished(self, event: TurnFinished) -> Iterator[wire.WireEvent]:
        yield from self._advance()
        if self._open is not None:
            yield from self._abort(self._open)
        for node in sorted(self._deferred, key=lambda n: self._plan.nodes[n].rank):
            yield self._node_finished(self._deferred[node])
        self._deferred.clear()
        elapsed = 0.0
        if event.status == "succeeded":
            yield wire.WorkflowFinished(self._inputs, event.outputs, elapsed, self._created_at, self._usage)
        elif event.status == "cancelled":
            yield wire.WorkflowFinished(self._inputs, CANCELLED_TEXT, elapsed, self._created_at, self._usage)

    # Showing Messages

    def _advance(self) -> Iterator[wire.WireEvent]:
        """Show everything that can be shown."""
        if not self._shows and not self._answers:
            return
        while True:
            if self._open is None:
                self._open = self._next_show()
                if self._open is None:
                    return
                if not self._open.is_running and self._open.node not in self._shows:
                    self._shows[self._open.node] = self._open
                    yield self._node_started(self._open.node, self._created_at)
            show = self._open
            yield from self._show(show)
            if show.finished is None:
                return
            yield from self._close(show, show.finished)

    def _next_show(self) -> _Show | None:
        """Return the first Message, by rank, that has something to show."""
        waiting = [show for show in self._shows.values() if show.known or show.finished]
        waiting += self._openable()
        return min(waiting, key=lambda show: self._plan.nodes[show.node].rank, default=None)

    def _openable(self) -> Iterator[_Show]:
        """Yield the Messages that may open before their own node runs."""
        for model, answer in self._answers.items():
            if not answer.deltas or answer.shown_by or answer.is_done:
                continue
            for message in self._plan.nodes[model].streams_to:
                if message not in self._shows and message not in self._ended and self._would_be_ready(message):
                    show = self._new_show(message, is_running=False)
                    if show.segments is not None:
                        yield show

    def _would_be_ready(self, message: NodeId) -> bool:
        """Return whether the Message would run next if its streaming models had finished."""
        join = self._plan.joins.get(message)
        if join is None:
            return True
        running = {m: None for m in self._plan.messages[message].models if self._is_streaming(m)}
        return join.is_ready({**self._tokens, **running})

    def _is_streaming(self, node: NodeId) -> bool:
        answer = self._answers.get(node)
        return answer is not None and not answer.is_done

    def _new_show(self, node: NodeId, *, is_running: bool) -> _Show:
        message = self._plan.messages[node]
        finished = {*self._outputs, *(m for m in message.models if m in self._answers)}
        index = message.choose(finished, self._seed, self._visits.get(node, 0))
        alternative = message.alternatives[index]
        return _Show(node, alternative.template.segments if alternative.is_live else None, is_running)

    def _show(self, show: _Show) -> Iterator[wire.WireEvent]:
        if show.segments is None:
            yield from _frames("".join(show.known.values()))
            show.known.clear()
            return
        while show.at < len(show.segments):
            segment = show.segments[show.at]
            answer = self._answer_for(show, segment)
            if answer is not None:
                while show.shown < len(answer.deltas):
                    yield _frame(answer.deltas[show.shown])
                    show.shown += 1
                if not answer.is_done:
                    return
            else:
                text = self._text(show, segment)
                if text is None:
                    return
                yield from _frames(text)
            show.at, show.shown = show.at + 1, 0

    def _answer_for(self, show: _Show, segment: str | Reference) -> _Answer | None:
        """Return the live answer for the segment.

        Only the first segment that shows an answer streams it; later ones show its text.
        """
        if isinstance(segment, str) or segment.kind != "output" or segment.key != STREAMED_OUTPUT or segment.path:
            return None
        answer = self._answers.get(NodeId(segment.node))
        if answer is None or show.node not in self._plan.nodes[NodeId(segment.node)].streams_to:
            return None
        if answer.shown_by is None:
            answer.shown_by = show
        is_repeated = segment in (show.segments or ())[: show.at]
        return answer if answer.shown_by is show and not is_repeated else None

    def _text(self, show: _Show, segment: str | Reference) -> str | None:
        """Return a segment's text, or None while it is unknown."""
        if show.at in show.known:
            return show.known[show.at]
        if show.finished is not None:
            return ""
        if show.is_running:
            return None
        if isinstance(segment, str):
            return segment
        if segment.kind == "alias" or self._is_streaming(NodeId(segment.node)):
            return None
        if self._is_recalled and segment.kind == "output" and segment.node not in self._outputs:
            return None
        return message_text(look_up(segment, self._globals, self._outputs))

    def _close(self, show: _Show, finished: NodeFinished) -> Iterator[wire.WireEvent]:
        self._open = None
        self._shows.pop(show.node, None)
        is_message = show.node in self._plan.messages
        if is_message:
            self._visits[show.node] = self._visits.get(show.node, 0) + 1
        yield wire.MessageEnd(finished.end or {})
        for model in sorted(self._deferred, key=lambda n: self._plan.nodes[n].rank):
            if show.node in self._plan.nodes[model].streams_to:
                yield self._node_finished(self._deferred.pop(model))
        yield self._node_finished(finished)

    def _abort(self, show: _Show) -> Iterator[wire.WireEvent]:
        """End a Message whose remaining text will not arrive. Text that was already shown remains."""
        self._open = None
        self._shows.pop(show.node, None)
        if not show.is_running:
            self._ended.add(show.node)
        yield wire.MessageEnd({})

    def _queue_fallback(self, event: NodeFinished) -> None:
        """Queue a failed node's fallback text as a separate message, followed by its ``node_finished``."""
        self._shows[event.node] = _Show(event.node, None, is_running=True, known={0: event.fallback}, finished=event)

    # Bookkeeping

    def _update_mirror(self, event: NodeFinished) -> None:
        self._outputs[event.node] = event.outputs
        if event.usage is not None:
            self._usage = self._usage.plus(event.usage)
        if event.globals:
            self._globals = {**self._globals, **event.globals}
        for node, patch in (event.patches or {}).items():
            self._outputs[node] = {**self._outputs.get(node, {}), **patch}
        if not event.is_halting:
            self._tokens[event.node] = list(event.targets) if self._plan.nodes[event.node].chooses else None

    def _node_started(self, id_: NodeId, created_at: float) -> wire.WireNodeStarted:
        node = self._plan.nodes[id_]
        return wire.WireNodeStarted(id_, node.title, node.spec.name, int(created_at))

    def _node_finished(self, event: NodeFinished) -> wire.WireNodeFinished:
        node = self._plan.nodes[event.node]
        return wire.WireNodeFinished(
            event.inputs,
            event.outputs,
            event.node,
            node.title,
            node.spec.name,
            event.error,
            event.elapsed_s,
            event.created_at,
        )


def _frames(text: str) -> Iterator[wire.Message]:
    """Yield the frames of a text, with thinking sections marked."""
    for piece, mark in split_thinking(text):
        yield wire.Message(piece, start_to_think=mark == "start", end_to_think=mark == "end")


def _frame(delta: Delta) -> wire.Message:
    return wire.Message(delta.text, start_to_think=delta.mark == "start", end_to_think=delta.mark == "end")


def _tagged_text(delta: Delta) -> str:
    return AnswerPart(delta.text, delta.mark).source
