"""Frames of RAGFlow's stream, and the single answer to a non-streaming request, as 0.27 sends them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ragflow_lg.base.errors import AnswerError, ConflictError, InputRefusedError, RagflowLgError, RequestError
from ragflow_lg.runs.wire.wire_events import (
    AnswerText,
    Message,
    MessageEnd,
    MessageReset,
    UserInputs,
    WireNodeFinished,
    WorkflowFinished,
)
from ragflow_lg.server.http.shared.ragflow_1 import speaks_1
from ragflow_lg.server.http.shared.responses import PAGE_FAILURE

if TYPE_CHECKING:
    from ragflow_lg.runs.wire.wire_events import Envelope, WireEvent

Forwarding: TypeAlias = Literal["all", "session", "messages", "page"]
"""The events that a client receives. ``session``: the events for sessions with source `agent`.
``messages``: the events that RAGFlow's oldest clients read. ``page``: what visitors to an embedded page may see."""

_SENT: dict[Forwarding, tuple[type[Any], ...]] = {
    "all": (),
    "session": (Message, MessageEnd, UserInputs, MessageReset, WireNodeFinished, WorkflowFinished),
    "messages": (Message, MessageEnd, UserInputs),  # the oldest clients would append the content of a MessageReset
    "page": (Message, MessageEnd, UserInputs, MessageReset, WorkflowFinished),
}
"""The kinds of events that are sent; an empty tuple for all."""


def build_error_frame(message: str, session_id: str, forwarding: Forwarding = "all") -> dict[str, Any]:
    """Build the frame for an error. It names the session in 1.0, and for visitors, whose first message may fail."""
    names = ("task_id", "session_id") if speaks_1() else ("session_id",) if forwarding == "page" else ()
    return {"code": 500, "message": message, "data": False, **dict.fromkeys(names, session_id)}


def describe_failure(error: RagflowLgError, forwarding: Forwarding) -> str:
    """Return the text of an error for a client. Visitors only learn what they can change themselves, and no nodes."""
    if isinstance(error, AnswerError) and forwarding == "page":
        texts = (text.removeprefix(f"{name.partition('@')[0]}: ") for name, text in error.problems.items())
        return " ".join(dict.fromkeys(texts))
    is_shown = isinstance(error, RequestError | ConflictError | AnswerError | InputRefusedError)
    return str(error) if is_shown or forwarding != "page" else PAGE_FAILURE


class FrameBuilder:
    """A builder for the frames that one client receives in a turn."""

    def __init__(self, envelope: Envelope, forwarding: Forwarding, *, has_trace: bool) -> None:
        self.envelope = envelope
        self.forwarding: Forwarding = forwarding
        self._has_trace = has_trace
        self._sent = _SENT[forwarding] + ((WireNodeFinished,) if has_trace and forwarding == "messages" else ())
        self._trace: list[dict[str, Any]] = []
        self.has_ended = False
        """Whether the turn has succeeded, was cancelled, or waits for an answer."""

    def build(self, event: WireEvent) -> list[dict[str, Any]]:
        """Return the frames for an event that the client receives."""
        self.has_ended = self.has_ended or isinstance(event, UserInputs | WorkflowFinished)
        if self._sent and not isinstance(event, self._sent):
            return []
        frame: dict[str, Any] = self.envelope.wrap(event)
        if self.forwarding == "session" and isinstance(event, WorkflowFinished):
            frame["data"] = {"usage": frame["data"]["usage"]}
        elif self.forwarding == "page" and isinstance(event, WorkflowFinished):
            frame["data"] = {"outputs": {}}
        elif self.forwarding == "messages" and isinstance(event, UserInputs):
            # The oldest clients do not support forms: they show the tips as text.
            frame["data"] = {**frame["data"], "content": event.tips}
        elif isinstance(event, WireNodeFinished) and self._has_trace and self.forwarding != "all":
            self._trace.append({"component_id": event.component_id, "trace": [frame["data"]]})
            frame["data"] = {**frame["data"], "content": ""} if self.forwarding == "messages" else {**frame["data"]}
            frame["data"]["trace"] = list(self._trace)
        return [frame]

    def build_empty(self) -> dict[str, Any]:
        """Return the frame of a turn without events."""
        return {"session_id": self.envelope.session_id, "data": {}}

    def build_failure(self, message: str, prefix: str, *, is_of_run: bool) -> list[dict[str, Any]]:
        """Return the frames for an error. RAGFlow's SDK and the oldest clients fail on error frames."""
        ends_message = is_of_run or self.forwarding == "messages"
        envelope = self.envelope
        error = build_error_frame(message, envelope.session_id, self.forwarding)
        return [envelope.wrap(Message(f"{prefix}{message}")), envelope.wrap(MessageEnd()) if ends_message else error]


class AnswerCollector:
    """Collects a turn's events for clients that do not stream."""

    def __init__(self, envelope: Envelope, forwarding: Forwarding, *, has_trace: bool) -> None:
        self.envelope = envelope
        self.forwarding: Forwarding = forwarding
        self.has_trace = has_trace
        self.answer = AnswerText("tagged" if forwarding in ("all", "page") else "text")
        self.has_ended = False
        """Whether the turn has succeeded, was cancelled, or waits for an answer."""
        self.structured: dict[str, Any] = {}
        self.trace: list[dict[str, Any]] = []
        self.usage: Any = None
        self._last_event: WireEvent | None = None
        self._main_event: WireEvent | None = None

    def feed(self, event: WireEvent) -> None:
        """Add the next event."""
        self._last_event = event
        self.has_ended = self.has_ended or isinstance(event, UserInputs | WorkflowFinished)
        self.answer.feed(event)
        if isinstance(event, MessageEnd):
            self._main_event = event
        elif isinstance(event, UserInputs):
            self._main_event = self._main_event or event
        elif isinstance(event, WireNodeFinished):
            self._add_node(event)
        elif isinstance(event, WorkflowFinished):
            self.usage = event.data()["usage"]

    def build_answer(self) -> dict[str, Any]:
        """Return the outer ``data`` of the answer."""
        if self.forwarding == "page":
            return self._build_page_answer()
        is_whole = self.forwarding == "all"
        event = self._last_event if is_whole else self._main_event or self._last_event
        if event is None:
            return {"session_id": self.envelope.session_id}
        envelope: dict[str, Any] = self.envelope.wrap(event)
        content = self.answer.text or (self.answer.tips if self.forwarding == "messages" else "")
        data: dict[str, Any] = {**envelope["data"], "content": content, "reference": self.answer.reference}
        if self.structured:
            data["structured"] = self.structured
        if self.has_trace:
            data["trace"] = self.trace
        if self.usage is not None:
            data["usage"] = self.usage
        return {**envelope, "data": data}

    def _build_page_answer(self) -> dict[str, Any]:
        """Return the answer for visitors: the text with its sources and files, or a form."""
        main: dict[str, Any] = self._main_event.data() if self._main_event is not None else {}
        event = self._last_event if isinstance(self._last_event, WorkflowFinished) else self._main_event
        if event is None or not (self.answer.form or isinstance(event, WorkflowFinished)):
            raise RequestError(PAGE_FAILURE, 500)
        data = {**main, "content": self.answer.text, "reference": self.answer.reference}
        return {**self.envelope.wrap(event), "data": data}

    def _add_node(self, event: WireNodeFinished) -> None:
        if self.has_trace:
            self.trace.append({"component_id": event.component_id, "trace": [event.data()]})
        if "structured" in event.outputs:
            self.structured[event.component_id] = event.outputs["structured"]
