"""Joins an interrupted run's events with those from its continuation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.values import join_surrogates
from ragflow_lg.runs.wire.wire_events import (
    Message,
    MessageEnd,
    MessageReset,
    UserInputs,
    WireNodeFinished,
    WireNodeStarted,
    WorkflowFinished,
    WorkflowStarted,
    message_frames,
    name_visit,
)

if TYPE_CHECKING:
    from ragflow_lg.component.events import EngineEvent
    from ragflow_lg.component.plan import Plan
    from ragflow_lg.runs.progress import Progress, Visit
    from ragflow_lg.server.streaming.event_codec import StreamEvent


_TEXT = (Message, MessageEnd, MessageReset)
_LAST = (WorkflowFinished, UserInputs)

_THINK, _ANSWER = "\U000f0001", "\U000f0002"
"""Stand for the start and the end of a thinking section in the text that followers have."""


class ReplayFilter:
    """Passes on only those events in a continuation that followers have not received yet.

    A continuation first repeats the events of stored node executions that followers do not know completely (see
    `missing_events`), and then runs unfinished nodes again. What followers have received is dropped, execution by
    execution. If a Message turns out differently, because the model thought or answered differently, the first one is
    ended where it stopped and the new one is sent in full. So is one that had ended, if its model has to answer again.
    """

    def __init__(self, events: Sequence[StreamEvent], plan: Plan, *, is_restart: bool = False) -> None:
        """Initialize the filter with the events that followers have received, from the beginning of the run.

        With ``is_restart``, they have lost what they had, and receive the stored executions again.
        """
        self._plan = plan
        self._started: Counter[Visit] = Counter()
        """What followers have received of each execution. In a cycle, a node is executed repeatedly at one place."""
        self._finished: Counter[Visit] = Counter()
        self._newest: set[Visit] = set()
        """Executions of nodes in cycles after which none of their successors has finished."""
        self._ended: Counter[str] = Counter()
        """The Messages that have ended."""
        self._open = ""
        """The Message that has not ended."""
        self.has_begun = is_restart
        """Whether any node had started."""
        self._has_finished = False
        """Whether followers have the last event, and only the end of the run is missing."""
        self._is_whole = is_restart
        """Whether the events begin with the turn."""
        self._executions: Counter[str] = Counter()
        """How often followers have received the start of each node."""
        self._texts: dict[tuple[str, int], list[str]] = {}
        """The last texts that followers have of each execution of a Message, in the order of the answer."""
        self._growing: tuple[str, int] | None = None
        """The execution whose text has not ended."""
        self._open_text: list[str] | None = None
        """The text of the open Message, until the continuation repeats it."""
        self._repetition: _Repetition | None = None
        """The text that the continuation repeats."""
        self._held: list[StreamEvent] = []
        """Events that wait for the end of the open Message, since the text of another one has come first."""
        for event in events:
            self._record(event)
            self._note_sent(event)
        self._forget_cycles()

    def _record(self, event: StreamEvent) -> None:
        if isinstance(event, WorkflowStarted):
            self._is_whole = True
        elif isinstance(event, _LAST):
            self._has_finished = True
        elif isinstance(event, WireNodeStarted):
            self.has_begun = True
            self._started[_visit_of(event)] += 1
            if event.component_id in self._plan.cyclic:
                self._newest.add(_visit_of(event))
        elif isinstance(event, WireNodeFinished):
            place, node = visit = _visit_of(event)
            self._finished[visit] += 1
            nodes = self._plan.nodes
            self._newest -= {one for one in self._newest if one[0] == place and node in nodes[one[1]].targets}
        elif isinstance(event, Message) and not event.audio_binary:
            self._open, self._open_text = event.visit, self._open_text or []
            self._open_text.append(_marked_text(event))
        elif isinstance(event, MessageReset):
            self._open, self._open_text = event.visit, [_reset_text(event)]
        elif isinstance(event, MessageEnd):
            self._open, self._open_text = "", None
            self._ended[event.visit] += 1

    def _forget_cycles(self) -> None:
        """Keep only the unfinished execution of a node in a cycle; see `_expect_newest` for the last finished one."""
        for place, node in [visit for visit in self._started if visit[1] in self._plan.cyclic]:
            finished = self._finished.pop((place, node), 0)
            self._started[place, node] -= finished
            self._ended[name_visit(place, node)] -= finished

    def _expect_newest(self, progress: Progress) -> None:
        """Expect the repetition of a node in a cycle whose last execution followers know, but the store does not."""
        for visit in self._newest & progress.running:
            if not self._started[visit]:
                self._started[visit] = self._finished[visit] = 1
                self._ended[name_visit(*visit)] += visit[1] in self._plan.messages

    def missing_events(self, progress: Progress) -> list[EngineEvent]:
        """Return the engine events of stored executions whose end followers have not received, in order of rank.

        This must be called before `feed`.
        """
        self._expect_newest(progress)
        plan = progress.plan
        missing: list[Visit] = []
        for visit in sorted(progress.finished, key=lambda visit: plan.nodes[visit[1]].rank):
            place, node = visit
            is_outside = not place and plan.nodes[node].parent is None
            is_unknown = self._is_whole and is_outside and node not in plan.cyclic
            if not self._finished[visit] and (self._started[visit] > 0 or is_unknown):
                missing.append(visit)
        return [event for visit in missing for event in progress.events_of(visit)]

    @property
    def answer(self) -> str:
        """The text of all Messages without thinking, as followers have received it."""
        return join_surrogates(_visible_text("".join("".join(text) for text in self._texts.values())))

    def feed(self, event: StreamEvent) -> Sequence[StreamEvent]:
        """Return the events to send for an event from the continuation."""
        events = [sent for due in self._order(event) for sent in self._filter(due)]
        for sent in events:
            self._note_sent(sent)
        return events

    def _order(self, event: StreamEvent) -> Sequence[StreamEvent]:
        """Return the events whose turn it is: text of another Message waits until the open one has finished."""
        if not self._open:
            return (event,)
        own = self._own_visits()
        name = event.visit if isinstance(event, _TEXT) else ""
        is_end = isinstance(event, _LAST)
        if (isinstance(event, WireNodeFinished) and name_visit(*_visit_of(event)) == self._open) or is_end:
            self._open, held, self._held = "", self._held, []
            return (*held, event) if is_end else (event, *held)
        if isinstance(event, WireNodeStarted | WireNodeFinished):
            name = name_visit(*_visit_of(event))
        if name not in own and (self._held or isinstance(event, _TEXT)):
            self._held.append(event)
            return ()
        return (event,)

    def _own_visits(self) -> set[str]:
        """Return the names of the executions that the open Message consists of: its own and those of its models."""
        place, _, node = self._open.partition(" ")
        message = self._plan.messages.get(NodeId(node))
        return {self._open, *(name_visit(place, model) for model in (message.models if message else ()))}

    def _note_sent(self, event: StreamEvent) -> None:
        """Keep the text that followers have. A text of an execution whose text had ended replaces it."""
        if isinstance(event, WireNodeStarted):
            self._executions[name_visit(*_visit_of(event))] += 1
        elif isinstance(event, MessageEnd):
            self._growing = None
        elif isinstance(event, MessageReset) or (isinstance(event, Message) and not event.audio_binary):
            execution = self._execution(event.visit)
            if self._growing != execution or isinstance(event, MessageReset):
                self._growing = execution
                self._texts.pop(execution, None)
            text = _marked_text(event) if isinstance(event, Message) else _reset_text(event)
            self._texts.setdefault(execution, []).append(text)

    def _execution(self, visit: str) -> tuple[str, int]:
        return visit, self._executions[visit]

    def _filter(self, event: StreamEvent) -> Sequence[StreamEvent]:
        if isinstance(event, WorkflowStarted):
            return () if self._is_whole or self.has_begun else (event,)
        if isinstance(event, WireNodeStarted | WireNodeFinished):
            known = self._started if isinstance(event, WireNodeStarted) else self._finished
            known[_visit_of(event)] -= 1
            return (event,) if known[_visit_of(event)] < 0 else ()
        if isinstance(event, _LAST):
            return () if self._has_finished else (event,)
        if not isinstance(event, _TEXT):
            return (event,)
        if event.visit == self._open:
            if self._open_text is not None:
                self._repetition, self._open_text = _Repetition("".join(self._open_text), has_ended=False), None
        elif self._ended[event.visit] > 0 and self._repetition is None:
            sent = self._texts.get(self._execution(event.visit), ())
            self._repetition = _Repetition("".join(sent), has_ended=True)
            self._ended[event.visit] -= 1
        return (event,) if self._repetition is None else self._repeat(event, self._repetition)

    def _repeat(self, event: Message | MessageEnd | MessageReset, repetition: _Repetition) -> Sequence[StreamEvent]:
        """Drop the part of a Message's text that followers have. If it turns out differently, send it in full."""
        has_ended = repetition.has_ended
        if isinstance(event, MessageReset):
            self._repetition = None
            if not has_ended:
                return (event,)  # it says itself what has been sent
            self._repetition = repetition = _Repetition(repetition.sent, has_ended=True)
        elif isinstance(event, MessageEnd):
            self._repetition = None
            if repetition.is_whole:
                return () if has_ended else (event,)
            return (*self._replace(event.visit, repetition), event)
        text = _marked_text(event) if isinstance(event, Message) else _reset_text(event)
        if repetition.add(text):
            return ()
        self._repetition = None
        if not has_ended and text.startswith(repetition.rest):
            return tuple(_frames(text[len(repetition.rest) :], event.visit))
        return self._replace(event.visit, repetition)

    def _replace(self, visit: str, repetition: _Repetition) -> Sequence[StreamEvent]:
        """Return a text instead of the one that followers have, which ends where it has stopped."""
        mark = (Message("", end_to_think=True, visit=visit),) if _is_thinking(repetition.sent) else ()
        end = () if repetition.has_ended else (*mark, MessageEnd(visit=visit))
        self._texts.pop(self._execution(visit), None)
        return (*end, *_frames(repetition.text, visit))


class _Repetition:
    """A text of a Message that followers have, while it is produced again."""

    def __init__(self, sent: str, *, has_ended: bool) -> None:
        self.sent = sent
        self.has_ended = has_ended
        self._pieces: list[str] = []
        self._same_chars = 0

    @property
    def text(self) -> str:
        """What has been produced again."""
        return "".join(self._pieces)

    @property
    def rest(self) -> str:
        """What has not been produced again."""
        return self.sent[self._same_chars :]

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing."""
        return self._same_chars == len(self.sent)

    def add(self, text: str) -> bool:
        """Add a piece. Return whether followers have it."""
        self._pieces.append(text)
        is_same = self.sent.startswith(text, self._same_chars)
        self._same_chars += len(text) if is_same else 0
        return is_same


def _visit_of(event: WireNodeStarted | WireNodeFinished) -> Visit:
    return event.place, NodeId(event.component_id)


def _marked_text(event: Message) -> str:
    return (_THINK if event.start_to_think else "") + event.content + (_ANSWER if event.end_to_think else "")


def _reset_text(event: MessageReset) -> str:
    return "".join(map(_marked_text, message_frames(event.content)))


def _is_thinking(text: str) -> bool:
    return text.rfind(_THINK) > text.rfind(_ANSWER)


def _visible_text(text: str) -> str:
    """Return a text without thinking sections."""
    first, *sections = text.split(_THINK)
    return first.replace(_ANSWER, "") + "".join(section.partition(_ANSWER)[2] for section in sections)


def _frames(text: str, visit: str) -> Iterator[Message]:
    """Yield the frames of a text with marks, shown by one execution."""
    piece = ""
    for char in text:
        if char not in (_THINK, _ANSWER):
            piece += char
            continue
        if piece:
            yield Message(piece, visit=visit)
        piece = ""
        yield Message("", start_to_think=char == _THINK, end_to_think=char == _ANSWER, visit=visit)
    if piece:
        yield Message(piece, visit=visit)
