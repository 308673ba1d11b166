"""Joins an interrupted run's events with those from its continuation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.values import join_surrogates
from ragflow_lg.runs.wire.answer_text import message_frames
from ragflow_lg.runs.wire.wire_events import (
    Message,
    MessageEnd,
    MessageReset,
    UserInputs,
    WireNodeFinished,
    WireNodeStarted,
    WorkflowFinished,
    WorkflowStarted,
    name_visit,
)

if TYPE_CHECKING:
    from ragflow_lg.component.events import EngineEvent
    from ragflow_lg.component.plan import Plan
    from ragflow_lg.runs.progress import Progress, Visit
    from ragflow_lg.server.streaming.event_codec import StreamEvent


class GrowingText:
    """A text that is joined only when it is read: appending to a string of megabytes would copy it each time."""

    def __init__(self, text: str = "") -> None:
        """Initialize with the beginning of the text."""
        self._pieces = [text]
        self._length = len(text)

    def __len__(self) -> int:
        return self._length

    @property
    def text(self) -> str:
        """The text so far."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    def append(self, text: str) -> None:
        """Add a piece."""
        self._pieces.append(text)
        self._length += len(text)


_TEXT = (Message, MessageEnd, MessageReset)
_LAST = (WorkflowFinished, UserInputs)

_THINK, _ANSWER = "\U000f0001", "\U000f0002"
"""Stand for the start and the end of a thinking section in the text that followers have."""


class ReplayFilter:
    """Passes on only those events in a continuation that followers have not received yet.

    A continuation first repeats the events of stored node executions that followers do not know completely (see
    `missing_events`), and then runs unfinished nodes again. What followers have received is dropped, execution by
    execution. If a Message turns out differently, because the model answered differently, the first one is ended where
    it stopped and the new one is sent in full. So is one that had ended, if its model has to answer again.
    """

    def __init__(self, events: Sequence[StreamEvent], plan: Plan) -> None:
        """Initialize the filter with the events that followers have received, from the beginning of the run."""
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
        self.has_begun = False
        """Whether any node had started."""
        self._has_finished = False
        """Whether followers have the last event, and only the end of the run is missing."""
        self._is_whole = False
        """Whether the events begin with the turn."""
        self._executions: Counter[str] = Counter()
        """How often followers have received the start of each node."""
        self._texts: dict[tuple[str, int], GrowingText] = {}
        """The last texts that followers have of each execution of a Message, in the order of the answer."""
        self._growing: tuple[str, int] | None = None
        """The execution whose text has not ended."""
        self._unrepeated = GrowingText()
        """The open Message's text, of which the continuation has repeated the first `_repeated_chars`."""
        self._repeated_chars = 0
        self._repeated_text = GrowingText()
        """What the continuation has repeated."""
        self._skips_thought = False
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
            self._open = event.visit
            self._unrepeated.append(_marked_text(event))
        elif isinstance(event, MessageReset):
            self._open = event.visit
            self._unrepeated = GrowingText(_reset_text(event))
        elif isinstance(event, MessageEnd):
            self._unrepeated, self._open = GrowingText(), ""
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
        return join_surrogates(_visible_text("".join(text.text for text in self._texts.values())))

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
            self._repeated_text = GrowingText()
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
            self._texts.setdefault(execution, GrowingText()).append(text)

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
            is_repeating = self._repeated_chars < len(self._unrepeated) or self._skips_thought
            return self._skip_repetition(event) if is_repeating else (event,)
        return self._repeat_ended(event) if self._ended[event.visit] > 0 else (event,)

    def _repeat_ended(self, event: Message | MessageEnd | MessageReset) -> Sequence[StreamEvent]:
        """Drop the text of a Message that had ended, unless it turns out differently: then send it at its end."""
        if isinstance(event, Message):
            self._repeated_text.append(_marked_text(event))
            return ()
        if isinstance(event, MessageReset):
            self._repeated_text = GrowingText(_reset_text(event))
            return ()
        self._ended[event.visit] -= 1
        text, self._repeated_text = self._repeated_text.text, GrowingText()
        sent = self._texts.get(self._execution(event.visit), GrowingText()).text
        return () if _visible_text(text) == _visible_text(sent) else self._replace(text, event)

    def _replace(self, text: str, end: MessageEnd) -> Sequence[StreamEvent]:
        """Return a text instead of the one that followers have, with its end."""
        self._texts.pop(self._execution(end.visit), None)
        return (*_frames(text, end.visit), end)

    def _skip_repetition(self, event: StreamEvent) -> Sequence[StreamEvent]:
        """Drop the part of a Message's text that has already been sent."""
        if isinstance(event, MessageEnd | MessageReset):  # a reset says itself what has been sent
            rest, repeated = self._unrepeated.text[self._repeated_chars :], self._repeated_text.text
            self._expect("")
            self._repeated_text, self._skips_thought = GrowingText(), False
            if isinstance(event, MessageReset) or _visible_text(repeated + rest) == _visible_text(repeated):
                return (event,)
            return (*self._end_open(), *self._replace(repeated, event))
        if not isinstance(event, Message):
            return (event,)
        text = _marked_text(event)
        if self._skips_thought:
            self._skips_thought = _ANSWER not in text
            return ()
        if self._unrepeated.text.startswith(text, self._repeated_chars):
            self._repeated_chars += len(text)
            self._repeated_text.append(text)
            return ()
        sent, repeated = self._unrepeated.text[self._repeated_chars :], self._repeated_text.text
        self._expect("")
        if text.startswith(sent):
            return tuple(_frames(text[len(sent) :], self._open))
        if _is_thinking(repeated):
            # The model thinks something else: only the answer counts.
            _, mark, rest = sent.partition(_ANSWER)
            self._expect(rest)
            self._repeated_text = GrowingText(repeated[: repeated.rindex(_THINK)])
            self._skips_thought = _ANSWER not in text
            return () if mark else (Message("", end_to_think=True, visit=self._open),)
        # The answer is the new text.
        return (*self._end_open(), *_frames(repeated + text, self._open))

    def _end_open(self) -> Sequence[StreamEvent]:
        """End the text of the open Message where it has stopped."""
        sent = self._texts.get(self._execution(self._open), GrowingText()).text
        mark = (Message("", end_to_think=True, visit=self._open),) if _is_thinking(sent) else ()
        return (*mark, MessageEnd(visit=self._open))

    def _expect(self, text: str) -> None:
        self._unrepeated, self._repeated_chars = GrowingText(text), 0


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
    return first + "".join(section.partition(_ANSWER)[2] for section in sections)


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
