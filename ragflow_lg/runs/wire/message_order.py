"""Conversion of engine events to RAGFlow's wire events. Only this module determines RAGFlow's order.

Three things differ from the execution order. A model's answer is shown live by the Message after it: the Message opens
with the first delta, before its own node runs. Only one Message is open at a time, because ``message`` frames do not
identify their Message. The ``node_finished`` of a streaming model waits for the end of its Message.

The class is pure: no clock, no I/O. It keeps no values of the run: what a Message shows comes from its own execution
or, before that, from the execution of its model (`ragflow_lg.engine.message_preview`). Executions of one node differ
in their place, since parallel rounds run the same nodes at the same time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct, field

from ragflow_lg.base.errors import CANCELLED_TEXT
from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.thinking import CLOSING, OPENING
from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.events import (
    AgentRecord,
    AnswerDiscarded,
    Delta,
    EngineEvent,
    MessagePiece,
    ModelCalled,
    NodeFinished,
    NodeStarted,
    Preview,
    TurnFinished,
    TurnStarted,
    Waiting,
)
from ragflow_lg.component.plan import ERROR, STREAMED_OUTPUT, Plan
from ragflow_lg.runs.wire import wire_events as wire
from ragflow_lg.runs.wire.wire_events import message_frames
from ragflow_lg.services.chat import Usage

Visit: TypeAlias = tuple[str, NodeId]
"""The place and the node of an execution. Executions of the same node at the same place follow each other."""


class _Answer(Struct):
    """The answer so far from one execution of a streaming model."""

    previews: Mapping[NodeId, Preview]
    deltas: list[wire.Message] = field(default_factory=list[wire.Message])
    finished: NodeFinished | None = None
    """The model's end, reported after the end of its Message."""
    shown_by: _Show | None = None

    @property
    def text(self) -> str:
        """The answer as the model's node stores it, with tags."""
        return "".join(_source(delta) for delta in self.deltas if not delta.is_aside)

    @property
    def shown_text(self) -> str:
        """The answer with all of its thinking, with tags."""
        return "".join(map(_source, self.deltas))


def _source(frame: wire.Message) -> str:
    return OPENING if frame.start_to_think else CLOSING if frame.end_to_think else frame.content


class _Show(Struct, eq=False):
    """A Message while it is shown."""

    visit: Visit
    preview: Preview = ()
    """What to show before the Message's own node runs."""
    at: int = 0
    """The next segment to show."""
    shown_deltas: int = 0
    """The number of deltas in that segment that have been shown."""
    sent: list[str] = field(default_factory=list[str])
    """The pieces of text that were shown, without marks; joining them at once keeps long answers cheap."""
    kept: str = ""
    """The text of the segments that were shown completely, with tags."""
    is_thinking: bool = False
    """Whether a thinking section is open."""
    kept_pieces: int = 0
    """The number of pieces in which that text was sent."""
    pieces: list[MessagePiece] = field(default_factory=list[MessagePiece])
    """What the Message's own node shows."""
    is_running: bool = False
    """Whether that node has started."""
    finished: NodeFinished | None = None


def _plain_frames(text: str) -> tuple[wire.Message]:
    """Return the frame of a text whose tags are text."""
    return (wire.Message(text),)


HIDDEN_QUESTION = "This conversation waits until somebody has approved a step."
"""What a client sees that may not answer questions about calls."""


class MessageOrder:
    """Converts one turn's engine events to wire events."""

    def __init__(self, plan: Plan, *, created_at: float, inputs: Mapping[str, JsonValue] | None = None) -> None:
        """Create the order of one run. ``inputs`` are the fields of the request."""
        self._plan = plan
        self._frames_of = _plain_frames if plan.compatibility.old_values else message_frames
        self._created_at = created_at
        self._inputs = dict(inputs or {})
        self._usage = Usage()
        self._answers: dict[Visit, _Answer] = {}
        self._shows: list[_Show] = []
        """The Messages that have not ended, in the order in which they started."""
        self._open: _Show | None = None
        self._tokens: dict[Visit, dict[str, Sequence[str] | None]] = {}
        """What has arrived at each join that can show a model's answer."""
        self.hides_questions = False
        """Whether the client does not see questions about calls."""
        self._waiting: dict[Visit, tuple[str, Mapping[str, Mapping[str, JsonValue]]]] = {}

    def feed(self, event: EngineEvent) -> Iterable[wire.WireEvent]:
        """Process one engine event; return the wire events that are due. The caller must consume all of them."""
        match event:
            case NodeStarted():
                return self._on_started(event)
            case NodeFinished():
                return self._on_finished(event)
            case Delta():
                frame = wire.Message(event.text, event.mark == "start", event.mark == "end", is_aside=event.is_aside)
                self._answers[event.place, event.node].deltas.append(frame)
                return self._advance()
            case AnswerDiscarded():
                return self._on_discarded((event.place, event.node))
            case MessagePiece():
                if show := self._show_of((event.place, event.node)):
                    show.pieces.append(event)
                return self._advance()
            case TurnStarted():
                self._inputs = dict(event.inputs)
                return (wire.WorkflowStarted(event.inputs, event.is_demo),)
            case Waiting():
                self.wait(event.node, event.tips, event.fields, event.place)
                return ()
            case TurnFinished():
                return self._on_turn_finished(event)
            case AgentRecord() | ModelCalled():
                return ()  # unknown to RAGFlow's clients

    def recall(self, inputs: Mapping[str, JsonValue], usage: Usage) -> None:
        """Continue a run of another process, which began with these inputs and has used this much."""
        self._inputs, self._usage = dict(inputs), usage

    def report_failure(self, event: TurnFinished) -> list[wire.WireEvent]:
        """Return the events of the node that stopped the turn in an earlier run.

        Clients of this run learn only from them why the turn failed.
        """
        node, now = NodeId(event.failed_node), float(self._created_at)
        outputs: dict[str, JsonValue] = {ERROR: event.error}
        finished = NodeFinished(node, now, 0.0, {}, outputs, event.error, is_halting=True)
        return [self._node_started(("", node), now), self._node_finished(finished)]

    def wait(self, node: str, tips: str, fields: Mapping[str, Mapping[str, JsonValue]], place: str = "") -> None:
        """Record that a node waits for the user."""
        self._waiting[place, NodeId(node)] = (tips, fields)

    @property
    def waiting(self) -> bool:
        """Whether any node waits for the user."""
        return bool(self._waiting)

    def user_inputs(self) -> wire.UserInputs:
        """Return the event with the fields of all waiting nodes, and the tips of the last form that has tips.

        Questions about calls are complete, or hidden: nobody shall approve what the tips do not show.
        """
        inputs: dict[str, Any] = {}
        tips: list[str] = []
        questions: list[str] = []
        visits = sorted(self._waiting, key=lambda visit: (self._rank(visit[1]), visit[0]))
        for visit in visits:
            own_tips, fields = self._waiting[visit]
            if self._plan.nodes[visit[1]].spec.kind == "interrupt":
                tips += [own_tips] if own_tips else []
            elif self.hides_questions:
                questions = [HIDDEN_QUESTION]
                continue
            else:
                questions.append(own_tips)
            inputs.update({name: dict(declared) for name, declared in fields.items()})
        last, whole = ("\n\n".join(filter(None, [*questions, *each])) for each in (tips[-1:], tips))
        nodes = tuple(dict.fromkeys(node for _, node in visits))
        return wire.UserInputs(inputs, last, nodes, whole if len(tips) > 1 else "")

    # Events

    def _on_started(self, event: NodeStarted) -> Iterable[wire.WireEvent]:
        visit = (event.place, event.node)
        self._waiting.pop(visit, None)
        self._tokens.pop(visit, None)
        if event.previews is None and not self._shows and event.node not in self._plan.messages:
            return (self._node_started(visit, event.created_at),)
        return self._on_shown_started(event, visit)

    def _on_shown_started(self, event: NodeStarted, visit: Visit) -> Iterator[wire.WireEvent]:
        """Process the start of a Message or of a model, or of a node beside a Message that is shown."""
        if event.previews is not None:
            yield from self._end_model(visit)  # it has run before, and no Message has shown it
            self._answers[visit] = _Answer(event.previews)
        show = self._show_of(visit)
        if show is not None and not show.is_running:
            show.is_running = True  # its node_started event was sent when it opened
            return
        if event.node in self._plan.messages:
            self._shows.append(_Show(visit, is_running=True))
        yield self._node_started(visit, event.created_at)

    def _on_finished(self, event: NodeFinished) -> Iterable[wire.WireEvent]:
        if event.usage is not None:
            self._usage = self._usage.plus(event.usage)
        self._report_to_joins(event)
        if not self._shows and not self._answers and not event.fallback:
            return (self._node_finished(event),)
        return self._on_shown_finished(event)

    def _on_shown_finished(self, event: NodeFinished) -> Iterator[wire.WireEvent]:
        """Process the end of a node while a Message is shown or a model answers."""
        visit = (event.place, event.node)
        if visit in self._answers and event.error is None:
            self._answers[visit].finished = event
        elif (show := self._show_of(visit)) is not None:
            show.finished = event
        else:
            answer = self._answers.pop(visit, None)
            if answer is not None and answer.shown_by is not None:
                yield from self._abort(answer.shown_by, event.error)
            if event.fallback:  # the text is a message of its own, before the node's end
                piece = MessagePiece(event.node, 0, event.fallback)
                self._shows.append(_Show(visit, pieces=[piece], is_running=True, finished=event))
            else:
                yield self._node_finished(event)
        yield from self._advance()

    def _on_discarded(self, model: Visit) -> Iterator[wire.WireEvent]:
        answer = self._answers[model]
        show = answer.shown_by
        if show is not None and show.shown_deltas:
            del show.sent[show.kept_pieces :]
            show.shown_deltas = 0
            yield from self._end_thinking(show)  # for clients that ignore the reset
            yield wire.MessageReset(show.kept, wire.name_visit(*show.visit))
        answer.deltas.clear()

    def _on_turn_finished(self, event: TurnFinished) -> Iterator[wire.WireEvent]:
        yield from self._advance()
        if self._open is not None:
            yield from self._abort(self._open, event.error)
        for visit in sorted(self._answers, key=lambda visit: self._rank(visit[1])):
            yield from self._end_model(visit)
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
        while show := self._open or self._next_show():
            if not show.is_running and show not in self._shows:
                self._shows.append(show)
                yield self._node_started(show.visit, self._created_at)
            self._open = show
            yield from self._show(show)
            if show.finished is None:
                return
            yield from self._close(show, show.finished)

    def _next_show(self) -> _Show | None:
        """Return the first Message, by rank, that has something to show."""
        waiting = [show for show in self._shows if show.pieces or show.finished]
        waiting += self._openable()
        return min(waiting, key=lambda show: self._rank(show.visit[1]), default=None)

    def _openable(self) -> Iterator[_Show]:
        """Yield the Messages that may open before their own node runs."""
        for (place, _), answer in self._answers.items():
            if answer.deltas and not answer.shown_by and not answer.finished:
                for message, preview in answer.previews.items():
                    visit = (place, message)
                    if preview[0] is not None and self._show_of(visit) is None and self._would_be_ready(visit):
                        yield _Show(visit, preview)

    def _would_be_ready(self, visit: Visit) -> bool:
        """Return whether the Message would run next if its streaming models had finished."""
        place, message = visit
        if (join := self._plan.joins.get(message)) is None:
            return True
        models = self._plan.messages[message].models
        running = {model: None for model in models if self._is_streaming((place, model))}
        return join.is_ready({**self._tokens.get(visit, {}), **running})

    def _is_streaming(self, visit: Visit) -> bool:
        answer = self._answers.get(visit)
        return answer is not None and answer.finished is None

    def _show(self, show: _Show) -> Iterator[wire.Message]:
        """Show what is known: the Message's own text once it has run, before that its preview."""
        while not show.is_running and show.at < len(show.preview):
            segment = show.preview[show.at]
            if segment is None:
                return
            answer = None if isinstance(segment, str) else self._answer_for(show, segment.model)
            if answer is None:
                text = segment if isinstance(segment, str) else segment.text
                yield from self._send(show, self._frames_of(text))
            else:
                yield from self._send(show, answer.deltas[show.shown_deltas :])
                show.shown_deltas = len(answer.deltas)
                if not answer.finished:
                    return
                text = answer.shown_text
            yield from self._end_thinking(show)
            show.at, show.shown_deltas = show.at + 1, 0
            show.kept, show.kept_pieces = show.kept + text, len(show.sent)
        for piece in show.pieces:
            if piece.segment >= show.at:
                yield from self._show_piece(show, piece)
        show.pieces.clear()

    def _show_piece(self, show: _Show, piece: MessagePiece) -> Iterator[wire.Message]:
        """Show a segment; a model's answer in the pieces in which it has arrived."""
        answer = self._answer_for(show, piece.model) if piece.model else None
        if answer is not None and answer.text == piece.text:
            yield from self._send(show, answer.deltas)
        else:
            yield from self._send(show, self._frames_of(piece.text))
        yield from self._end_thinking(show)

    def _answer_for(self, show: _Show, model: NodeId) -> _Answer | None:
        """Return the answer that the Message shows as it arrived; None if another Message has shown it."""
        answer = self._answers.get((show.visit[0], model))
        if answer is None or answer.shown_by not in (None, show):
            return None
        answer.shown_by = show
        return answer

    def _send(self, show: _Show, frames: Iterable[wire.Message]) -> Iterator[wire.Message]:
        visit = wire.name_visit(*show.visit)
        for frame in frames:
            show.sent.append(frame.content)
            show.is_thinking = (show.is_thinking or frame.start_to_think) and not frame.end_to_think
            frame.visit = visit
            yield frame

    def _end_thinking(self, show: _Show) -> Iterator[wire.Message]:
        """End a thinking section that its text has left open: what follows is not part of it."""
        if show.is_thinking:
            show.is_thinking = False
            yield wire.Message("", end_to_think=True, visit=wire.name_visit(*show.visit))

    def _close(self, show: _Show, finished: NodeFinished) -> Iterator[wire.WireEvent]:
        self._open = None
        self._shows.remove(show)
        yield from self._end_thinking(show)
        yield wire.MessageEnd(finished.end or {}, wire.name_visit(*show.visit))
        models = self._plan.messages[finished.node].models if finished.node in self._plan.messages else ()
        for model in sorted(models, key=self._rank):
            yield from self._end_model((finished.place, model))
        yield self._node_finished(finished)

    def _abort(self, show: _Show, error: str | None) -> Iterator[wire.WireEvent]:
        """End a Message that will not run. Text that was already shown remains."""
        self._open = None
        self._shows.remove(show)
        yield from self._end_thinking(show)
        yield wire.MessageEnd({}, wire.name_visit(*show.visit))
        outputs: dict[str, JsonValue] = {STREAMED_OUTPUT: "".join(show.sent), "downloads": None, ERROR: error}
        yield self._node_finished(
            NodeFinished(show.visit[1], self._created_at, 0.0, {}, outputs, error, place=show.visit[0])
        )

    def _end_model(self, visit: Visit) -> Iterator[wire.WireEvent]:
        """Report the end of a model that has finished."""
        if visit in self._answers and (finished := self._answers[visit].finished):
            del self._answers[visit]
            yield self._node_finished(finished)

    # Bookkeeping

    def _show_of(self, visit: Visit) -> _Show | None:
        return next((show for show in self._shows if show.visit == visit and show.finished is None), None)

    def _rank(self, node: NodeId) -> int:
        return self._plan.nodes[node].rank

    def _report_to_joins(self, event: NodeFinished) -> None:
        node = self._plan.nodes[event.node]
        if event.is_halting:
            return
        for join in node.reports_to:
            if join in self._plan.messages and self._plan.messages[join].models:
                tokens = self._tokens.setdefault((event.place, join), {})
                tokens[event.node] = list(event.targets) if node.chooses else None

    def _node_started(self, visit: Visit, created_at: float) -> wire.WireNodeStarted:
        place, id_ = visit
        node = self._plan.nodes[id_]
        return wire.WireNodeStarted(id_, node.title, node.spec.name, int(created_at), place)

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
            event.place,
            event.notices,
            event.finish_reason,
        )
