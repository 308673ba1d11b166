"""Joins an interrupted run's events with those from its continuation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from ragflow_lg.base.values import to_text
from ragflow_lg.component.events import AgentRecord
from ragflow_lg.wire.wire_events import Message, MessageEnd, WireNodeFinished, WireNodeStarted, WorkflowStarted

if TYPE_CHECKING:
    from ragflow_lg.server.streaming import StreamEvent


class ReplayFilter:
    """Passes on only those events in a continuation that followers have not received yet.

    A continuation runs unfinished nodes again. If such a node repeats text it sent before, that text is dropped. If a
    Message turns out differently, because the model answered differently, the first one is ended where it stopped and
    the new one is sent in full.
    """

    def __init__(self, events: Sequence[StreamEvent]) -> None:
        """Initialize the filter with the events that followers have received, from the beginning of the run."""
        self._open: Counter[str] = Counter()
        """Nodes reported as started but not yet as finished."""
        self._kinds: dict[str, str] = {}
        self.has_begun = False
        """Whether any node had started."""
        self.ended_text = ""
        """The text of the Messages that had ended, including text that `finish` has added to others."""
        self._message = ""
        """The Message that is sending text, or was the last to do so."""
        self._unrepeated = ""
        """The part of its text that the continuation has not yet repeated, without thinking."""
        self._repeated_text = ""
        self._is_repeating = False
        self._is_thinking = False
        for event in events:
            self._record(event)
        self._is_thinking = False
        self._is_repeating = bool(self._unrepeated)

    def _record(self, event: StreamEvent) -> None:
        if isinstance(event, WireNodeStarted):
            self.has_begun = True
            self._open[event.component_id] += 1
            self._kinds[event.component_id] = event.component_type
            if event.component_type == "Message":
                self._message = event.component_id
        elif isinstance(event, WireNodeFinished):
            self._open[event.component_id] -= 1
        elif isinstance(event, Message):
            self._unrepeated += self._visible_text(event)
        elif isinstance(event, MessageEnd):
            self.ended_text += self._unrepeated
            self._unrepeated = ""

    def _visible_text(self, event: Message) -> str:
        """Return the text in a piece; ``""`` while the model is thinking."""
        is_thought = self._is_thinking or event.start_to_think
        self._is_thinking = is_thought and not event.end_to_think
        return "" if is_thought else event.content

    def finish(self, outputs: Mapping[str, Any]) -> Iterator[StreamEvent]:
        """Yield the missing events for a Message that ended before its followers saw its end.

        The text is taken from the stored ``outputs``.
        """
        node, self._message = self._message, ""
        node_outputs: Any = outputs.get(node)
        if not self._open[node] or not isinstance(node_outputs, dict):
            self._message = node
            return
        fields = cast("dict[str, Any]", node_outputs)
        whole = to_text(fields.get("content"))
        if whole.startswith(self._unrepeated) and "content" in fields:
            if rest := whole[len(self._unrepeated) :]:
                yield Message(rest)
            yield MessageEnd()
            yield WireNodeFinished({}, fields, node, node, self._kinds[node], None, 0.0, 0.0)
            self._open[node] -= 1
            self.ended_text += whole
            self._unrepeated, self._is_repeating = "", False

    def feed(self, event: StreamEvent) -> Iterable[StreamEvent]:
        """Return the events to send for an event from the continuation."""
        if isinstance(event, WorkflowStarted):
            return () if self.has_begun else (event,)
        if isinstance(event, WireNodeStarted) and self._open[event.component_id] > 0:
            self._open[event.component_id] -= 1
            return ()
        if isinstance(event, AgentRecord) or not self._is_repeating:
            return (event,)
        return self._skip_repetition(event)

    def _skip_repetition(self, event: StreamEvent) -> Iterable[StreamEvent]:
        """Drop the part of a Message's text that has already been sent."""
        if isinstance(event, MessageEnd):
            self._is_repeating = False
            return (event,)
        if not isinstance(event, Message):
            return (event,)
        text = self._visible_text(event)
        if not text:
            return ()  # thinking is not sent again
        if self._unrepeated.startswith(text):
            self._unrepeated = self._unrepeated[len(text) :]
            self._repeated_text += text
            self._is_repeating = bool(self._unrepeated)
            return ()
        self._is_repeating = False
        if text.startswith(self._unrepeated):
            return (Message(text[len(self._unrepeated) :]),)
        return (MessageEnd(), Message(self._repeated_text + text))
