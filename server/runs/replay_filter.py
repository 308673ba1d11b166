"""Joins an interrupted run's events with those from its continuation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.events import AgentRecord
from ragflow_lg.wire.answer_text import message_frames
from ragflow_lg.wire.wire_events import (
    Message,
    MessageEnd,
    MessageReset,
    WireNodeFinished,
    WireNodeStarted,
    WorkflowStarted,
)

if TYPE_CHECKING:
    from ragflow_lg.component.events import EngineEvent
    from ragflow_lg.runs.progress import Progress
    from ragflow_lg.server.streaming import StreamEvent

_THINK, _ANSWER = "\U000f0001", "\U000f0002"
"""Stand for the start and the end of a thinking section in the text that followers have."""


class ReplayFilter:
    """Passes on only those events in a continuation that followers have not received yet.

    A continuation first repeats the events of stored node executions that followers do not know completely (see
    `missing_events`), and then runs unfinished nodes again. What followers have received is dropped. If a Message turns
    out differently, because the model answered differently, the first one is ended where it stopped and the new one is
    sent in full.
    """

    def __init__(self, events: Sequence[StreamEvent]) -> None:
        """Initialize the filter with the events that followers have received, from the beginning of the run."""
        self._started: Counter[str] = Counter()
        self._finished: Counter[str] = Counter()
        self._open: Counter[str] = Counter()
        """Nodes reported as started but not yet as finished."""
        self._repeated: Counter[str] = Counter()
        """Nodes that run again although they have been reported as finished."""
        self._is_muted = False
        """Whether the text of the next or current Message is dropped, because followers have all of it."""
        self.has_begun = False
        """Whether any node had started."""
        self._is_whole = False
        """Whether the events begin with the turn."""
        self._sent = ""
        """The text that followers have, of all Messages."""
        self._unrepeated = ""
        """The part of the open Message's text that the continuation has not yet repeated."""
        self._repeated_text = ""
        """The part that it has repeated."""
        self._skips_thought = False
        self._ended = 0
        """The length of the part in Messages that have ended."""
        for event in events:
            self._record(event)
            self._note_sent(event)

    def _record(self, event: StreamEvent) -> None:
        if isinstance(event, WorkflowStarted):
            self._is_whole = True
        elif isinstance(event, WireNodeStarted):
            self.has_begun = True
            self._started[event.component_id] += 1
            self._open[event.component_id] += 1
        elif isinstance(event, WireNodeFinished):
            self._finished[event.component_id] += 1
            self._open[event.component_id] -= 1
            self._is_muted = self._is_muted and event.component_type != "Message"
        elif isinstance(event, Message):
            self._unrepeated += _marked_text(event)
        elif isinstance(event, MessageReset):
            self._unrepeated = _reset_text(event)
        elif isinstance(event, MessageEnd):
            self._unrepeated = ""
            self._is_muted = True  # until its node has finished

    def missing_events(self, progress: Progress) -> list[EngineEvent]:
        """Return the engine events of stored executions whose end followers have not received, in order of rank.

        This must be called before `feed`.
        """
        running = Counter(
            visit.node for visit in progress.open if visit.earlier is None or self._started[visit.node] > visit.earlier
        )
        for visit in progress.open:
            if visit.earlier is not None and not self._open[visit.node]:
                self._repeated[visit.node] = max(self._finished[visit.node] - visit.earlier, 0)
        missing: list[NodeId] = []
        for node in sorted(progress.finished, key=lambda node: progress.plan.nodes[node].rank):
            is_unknown = self._is_whole and not self._started[node] and progress.plan.nodes[node].parent is None
            if self._open[node] > running[node] or is_unknown:
                missing.append(node)
        return [event for node in missing for event in progress.events_of(node)]

    @property
    def answer(self) -> str:
        """The text of all Messages without thinking, as followers have received it."""
        return _visible_text(self._sent)

    def feed(self, event: StreamEvent) -> Sequence[StreamEvent]:
        """Return the events to send for an event from the continuation."""
        events = self._filter(event)
        for sent in events:
            self._note_sent(sent)
        return events

    def _note_sent(self, event: StreamEvent) -> None:
        if isinstance(event, Message):
            self._sent += _marked_text(event)
        elif isinstance(event, MessageReset):
            self._sent = self._sent[: self._ended] + _reset_text(event)
        elif isinstance(event, MessageEnd):
            self._ended = len(self._sent)

    def _filter(self, event: StreamEvent) -> Sequence[StreamEvent]:
        if isinstance(event, WorkflowStarted):
            return () if self._is_whole or self.has_begun else (event,)
        if isinstance(event, WireNodeStarted):
            return self._feed_start(event)
        if isinstance(event, WireNodeFinished) and self._repeated[event.component_id] > 0:
            self._repeated[event.component_id] -= 1
            return ()
        if isinstance(event, AgentRecord):
            return (event,)
        if self._is_muted and isinstance(event, Message | MessageEnd | MessageReset):
            return self._mute(event)
        return self._skip_repetition(event) if self._unrepeated or self._skips_thought else (event,)

    def _feed_start(self, event: WireNodeStarted) -> Sequence[StreamEvent]:
        node = event.component_id
        if self._open[node] > 0:
            self._open[node] -= 1
            return ()
        if not self._repeated[node]:
            return (event,)
        self._is_muted = self._is_muted or event.component_type == "Message"
        return ()

    def _mute(self, event: Message | MessageEnd | MessageReset) -> Sequence[StreamEvent]:
        """Drop the text of a Message that followers have received completely."""
        self._is_muted = not isinstance(event, MessageEnd)
        return ()

    def _skip_repetition(self, event: StreamEvent) -> Sequence[StreamEvent]:
        """Drop the part of a Message's text that has already been sent."""
        if isinstance(event, MessageEnd | MessageReset):  # a reset says itself what has been sent
            self._unrepeated, self._repeated_text, self._skips_thought = "", "", False
            return (event,)
        if not isinstance(event, Message):
            return (event,)
        text = _marked_text(event)
        if self._skips_thought:
            self._skips_thought = _ANSWER not in text
            return ()
        if self._unrepeated.startswith(text):
            self._unrepeated = self._unrepeated[len(text) :]
            self._repeated_text += text
            return ()
        sent, self._unrepeated = self._unrepeated, ""
        if text.startswith(sent):
            return tuple(_frames(text[len(sent) :]))
        if _is_thinking(self._repeated_text):
            # The model thinks something else: only the answer counts.
            _, mark, rest = sent.partition(_ANSWER)
            self._unrepeated, self._skips_thought = rest, _ANSWER not in text
            return () if mark else (Message("", end_to_think=True),)
        self._sent = self._sent.removesuffix(self._repeated_text + sent)  # the answer is the new text
        return (MessageEnd(), *_frames(self._repeated_text + text))


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


def _frames(text: str) -> Iterator[Message]:
    """Yield the frames of a text with marks."""
    piece = ""
    for char in text:
        if char not in (_THINK, _ANSWER):
            piece += char
            continue
        if piece:
            yield Message(piece)
        piece = ""
        yield Message("", start_to_think=char == _THINK, end_to_think=char == _ANSWER)
    if piece:
        yield Message(piece)
