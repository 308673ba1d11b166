"""Joining what a run said before it was interrupted to what its continuation says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from ragflow_lg.base.values import to_text
from ragflow_lg.component.events import AgentRecord
from ragflow_lg.wire.wire_events import Message, MessageEnd, WireNodeFinished, WireNodeStarted, WorkflowStarted

if TYPE_CHECKING:
    from ragflow_lg.server.streaming import StreamEvent

__all__ = ["ReplayFilter"]


class ReplayFilter:
    """Passes on of a continuation what followers have not been told.

    A continuation plays the nodes anew that had not ended. What such a node said before is passed over when it is said
    again. A Message that turns out otherwise than it began, as models may, is ended where it was, and said whole.
    """

    def __init__(self, said: Sequence[StreamEvent]) -> None:
        """``said`` is what followers have been told, from the beginning."""
        self._open: Counter[str] = Counter()
        """Nodes that were told to have started, and not yet to have ended."""
        self._kinds: dict[str, str] = {}
        self.has_begun = False
        """Whether any node had started."""
        self.ended = ""
        """The text of the Messages that had ended; of the others what `finish` has added."""
        self._message = ""
        """The Message that speaks, or spoke last."""
        self._told = ""
        """What it had said, as far as that is not said again yet; thinking left out."""
        self._passed_over = ""
        self._is_repeating = False
        self._is_thinking = False
        for event in said:
            self._take(event)
        self._is_thinking = False
        self._is_repeating = bool(self._told)

    def _take(self, event: StreamEvent) -> None:
        if isinstance(event, WireNodeStarted):
            self.has_begun = True
            self._open[event.component_id] += 1
            self._kinds[event.component_id] = event.component_type
            if event.component_type == "Message":
                self._message = event.component_id
        elif isinstance(event, WireNodeFinished):
            self._open[event.component_id] -= 1
        elif isinstance(event, Message):
            self._told += self._shown(event)
        elif isinstance(event, MessageEnd):
            self.ended += self._told
            self._told = ""

    def _shown(self, event: Message) -> str:
        """Give the text of a piece; ``""`` while the model thinks."""
        is_thought = self._is_thinking or event.start_to_think
        self._is_thinking = is_thought and not event.end_to_think
        return "" if is_thought else event.content

    def finish(self, outputs: Mapping[str, Any]) -> Iterator[StreamEvent]:
        """Give what is missing of nodes that had ended before anybody was told so, by the stored outputs."""
        node, self._message = self._message, ""
        of_node: Any = outputs.get(node)
        if not self._open[node] or not isinstance(of_node, dict):
            self._message = node
            return
        found = cast("dict[str, Any]", of_node)
        whole = to_text(found.get("content"))
        if whole.startswith(self._told) and "content" in found:
            if rest := whole[len(self._told) :]:
                yield Message(rest)
            yield MessageEnd()
            yield WireNodeFinished({}, found, node, node, self._kinds[node], None, 0.0, 0.0)
            self._open[node] -= 1
            self.ended += whole
            self._told, self._is_repeating = "", False

    def feed(self, event: StreamEvent) -> Iterable[StreamEvent]:
        """Take an event of the continuation; give what is to be told."""
        if isinstance(event, WorkflowStarted):
            return () if self.has_begun else (event,)
        if isinstance(event, WireNodeStarted) and self._open[event.component_id] > 0:
            self._open[event.component_id] -= 1
            return ()
        if isinstance(event, AgentRecord) or not self._is_repeating:
            return (event,)
        return self._repeated(event)

    def _repeated(self, event: StreamEvent) -> Iterable[StreamEvent]:
        """Pass over what has been told of a Message."""
        if isinstance(event, MessageEnd):
            self._is_repeating = False
            return (event,)
        if not isinstance(event, Message):
            return (event,)
        text = self._shown(event)
        if not text:
            return ()  # what was thought is not told again
        if self._told.startswith(text):
            self._told = self._told[len(text) :]
            self._passed_over += text
            self._is_repeating = bool(self._told)
            return ()
        self._is_repeating = False
        if text.startswith(self._told):
            return (Message(text[len(self._told) :]),)
        return (MessageEnd(), Message(self._passed_over + text))
