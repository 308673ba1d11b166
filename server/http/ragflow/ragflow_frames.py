"""The frames of RAGFlow's native stream, and the one answer of those who do not stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from ragflow_lg.server.http.shared.responses import encode_json
from ragflow_lg.wire.wire_events import Message, MessageEnd, UserInputs, WireNodeFinished, WorkflowFinished

if TYPE_CHECKING:
    from ragflow_lg.wire.wire_events import Envelope, WireEvent

__all__ = ["DONE", "AnswerCollector", "Forwarding", "FrameBuilder", "build_error_frame", "write_frame"]

DONE = b"data:[DONE]\n\n"

Forwarding: TypeAlias = Literal["all", "session", "messages"]
"""``session``: what RAGFlow sends for a session that a client made; ``messages``: what its oldest clients read."""


def write_frame(frame: dict[str, Any], event_id: str = "") -> bytes:
    """Write a frame as RAGFlow does, without a blank behind the colon; with an id for a client that asks for ids."""
    head = f"id:{event_id}\n".encode() if event_id else b""
    return b"%bdata:%b\n\n" % (head, encode_json(frame))


def build_error_frame(message: str) -> dict[str, Any]:
    """Make the frame that tells of a failure of the engine."""
    return {"code": 500, "message": message, "data": False}


class FrameBuilder:
    """Makes the frames of one turn for one client."""

    def __init__(self, envelope: Envelope, forwarding: Forwarding, *, has_trace: bool) -> None:
        self.envelope = envelope
        self.forwarding = forwarding
        self._has_trace = has_trace
        self._trace: list[dict[str, Any]] = []

    def frame(self, event: WireEvent) -> dict[str, Any] | None:
        """Give the frame of an event, None if this client is not sent it."""
        if not self._is_sent(event):
            return None
        frame: dict[str, Any] = self.envelope.wrap(event)
        if self.forwarding == "session" and isinstance(event, WorkflowFinished):
            frame["data"] = {"usage": frame["data"]["usage"]}
        elif self.forwarding == "messages" and isinstance(event, UserInputs):
            # The oldest client knows no forms: it shows what is asked.
            frame["data"] = {**frame["data"], "content": event.tips}
        elif isinstance(event, WireNodeFinished) and self._has_trace and self.forwarding != "all":
            self._trace.append({"component_id": event.component_id, "trace": [frame["data"]]})
            frame["data"] = {**frame["data"], "content": ""} if self.forwarding == "messages" else {**frame["data"]}
            frame["data"]["trace"] = list(self._trace)
        return frame

    def _is_sent(self, event: WireEvent) -> bool:
        if self.forwarding == "all":
            return True
        if isinstance(event, Message | MessageEnd | UserInputs):
            return True
        if self.forwarding == "messages":
            return isinstance(event, WireNodeFinished) and self._has_trace
        return isinstance(event, WireNodeFinished | WorkflowFinished)


class AnswerCollector:
    """Gathers the events of a turn for a client that waits for the whole answer."""

    def __init__(self, envelope: Envelope, forwarding: Forwarding, *, has_trace: bool) -> None:
        self._envelope = envelope
        self.forwarding = forwarding
        self._has_trace = has_trace
        self._content: list[str] = []
        self._reference: dict[str, dict[str, Any]] = {}
        self._structured: dict[str, Any] = {}
        self._trace: list[dict[str, Any]] = []
        self._usage: Any = None
        self._last: WireEvent | None = None
        self._shown: WireEvent | None = None

    def feed(self, event: WireEvent) -> None:
        """Take the next event."""
        self._last = event
        if isinstance(event, Message):
            self._say(event)
        elif isinstance(event, MessageEnd):
            self._shown = event
            self._cite(event.extras.get("reference"))
        elif isinstance(event, UserInputs):
            self._shown = self._shown or event
            if self.forwarding == "messages" and not self._content:
                self._content.append(event.tips)
        elif isinstance(event, WireNodeFinished):
            self._note(event)
        elif isinstance(event, WorkflowFinished):
            self._usage = event.data()["usage"]

    def answer(self) -> dict[str, Any]:
        """Give what stands in the outer ``data``."""
        is_whole = self.forwarding == "all"
        chosen = self._last if is_whole else self._shown or self._last
        if chosen is None:
            return {"session_id": self._envelope.session_id}
        envelope: dict[str, Any] = self._envelope.wrap(chosen)
        data: dict[str, Any] = {**envelope["data"], "content": "".join(self._content)}
        if self._reference:
            data["reference"] = self._reference
        if self._structured:
            data["structured"] = self._structured
        if self._has_trace:
            data["trace"] = self._trace
        if self._usage is not None:
            data["usage"] = self._usage
        return {**envelope, "data": data}

    def _say(self, event: Message) -> None:
        if (event.start_to_think or event.end_to_think) and self.forwarding == "all":
            self._content.append("<think>" if event.start_to_think else "</think>")
        self._content.append(event.content)

    def _cite(self, reference: Any) -> None:
        if isinstance(reference, dict):
            for name, part in cast("dict[str, Any]", reference).items():
                if isinstance(part, dict):
                    self._reference.setdefault(name, {}).update(cast("dict[str, Any]", part))

    def _note(self, event: WireNodeFinished) -> None:
        if self._has_trace:
            self._trace.append({"component_id": event.component_id, "trace": [event.data()]})
        if "structured" in event.outputs:
            self._structured[event.component_id] = event.outputs["structured"]
