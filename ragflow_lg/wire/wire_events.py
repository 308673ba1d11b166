"""RAGFlow's run events, as its clients read them.

Names, keys and their order follow RAGFlow's ``agent/canvas.py``. Each class makes the ``data`` of one event;
`envelope` wraps it. ``created_at`` is epoch seconds everywhere, where RAGFlow sometimes gives a
monotonic clock.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, TypeAlias

from msgspec import Struct, field

from ragflow_lg.base.values import JsonValue
from ragflow_lg.services.chat import NO_USAGE, Usage

__all__ = [
    "Envelope",
    "FramePayload",
    "Message",
    "MessageEnd",
    "WireNodeFinished",
    "WireNodeStarted",
    "UserInputs",
    "WireEvent",
    "WorkflowFinished",
    "WorkflowStarted",
]


class WorkflowStarted(Struct):
    """A new turn began; not sent when a paused one goes on."""

    event: ClassVar[str] = "workflow_started"
    inputs: dict[str, Any] | None

    def data(self) -> dict[str, JsonValue]:
        """Give the ``data`` object of the event."""
        return {"inputs": self.inputs}


class WireNodeStarted(Struct):
    """A node began."""

    event: ClassVar[str] = "node_started"
    component_id: str
    component_name: str
    component_type: str
    created_at: int

    def data(self) -> dict[str, JsonValue]:
        """Give the ``data`` object of the event."""
        return {
            "inputs": None,
            "created_at": self.created_at,
            "component_id": self.component_id,
            "component_name": self.component_name,
            "component_type": self.component_type,
            "thoughts": "",
        }


class WireNodeFinished(Struct):
    """A node ended; ``error`` tells why if it failed."""

    event: ClassVar[str] = "node_finished"
    inputs: dict[str, JsonValue]
    outputs: dict[str, JsonValue]
    component_id: str
    component_name: str
    component_type: str
    error: str | None
    elapsed_time: float
    created_at: float

    def data(self) -> dict[str, JsonValue]:
        """Give the ``data`` object of the event."""
        return {
            "inputs": self.inputs,
            "outputs": {**self.outputs, "_created_time": self.created_at, "_elapsed_time": self.elapsed_time},
            "component_id": self.component_id,
            "component_name": self.component_name,
            "component_type": self.component_type,
            "error": self.error,
            "elapsed_time": self.elapsed_time,
            "created_at": self.created_at,
        }


class Message(Struct):
    """A piece of the answer. At the border of a thinking section ``content`` is empty and a flag is set."""

    event: ClassVar[str] = "message"
    content: str
    start_to_think: bool = False
    end_to_think: bool = False

    def data(self) -> dict[str, JsonValue]:
        """Give the ``data`` object of the event."""
        data: dict[str, JsonValue] = {"content": self.content}
        if self.start_to_think:
            data["start_to_think"] = True
        if self.end_to_think:
            data["end_to_think"] = True
        return data


class MessageEnd(Struct):
    """The end of one Message. ``extras`` holds ``status``, ``attachment``, ``downloads``, ``reference`` if any."""

    event: ClassVar[str] = "message_end"
    extras: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])

    def data(self) -> dict[str, JsonValue]:
        """Give the ``data`` object of the event."""
        return self.extras


class UserInputs(Struct):
    """The turn waits for a form."""

    event: ClassVar[str] = "user_inputs"
    inputs: dict[str, Any]
    tips: str

    def data(self) -> dict[str, JsonValue]:
        """Give the ``data`` object of the event."""
        return {"inputs": self.inputs, "tips": self.tips}


class WorkflowFinished(Struct):
    """The turn ended well, or was cancelled (``outputs`` is then RAGFlow's text for that)."""

    event: ClassVar[str] = "workflow_finished"
    inputs: dict[str, Any] | None
    outputs: JsonValue
    elapsed_time: float
    created_at: float
    usage: Usage = NO_USAGE
    """What the models of the turn have been asked, all in all."""

    def data(self) -> dict[str, JsonValue]:
        """Give the ``data`` object of the event."""
        read, written = self.usage.prompt_tokens, self.usage.completion_tokens
        return {
            "inputs": self.inputs,
            "outputs": self.outputs,
            "elapsed_time": self.elapsed_time,
            "created_at": self.created_at,
            "usage": {
                "prompt_tokens": read,
                "completion_tokens": written,
                "total_tokens": read + written,
                "calls": self.usage.calls,
            },
        }


WireEvent: TypeAlias = (
    WorkflowStarted | WireNodeStarted | WireNodeFinished | Message | MessageEnd | UserInputs | WorkflowFinished
)


class FramePayload(Protocol):
    """What an envelope goes round: a wire event, or a record that is shown beside them."""

    event: ClassVar[str]

    def data(self) -> dict[str, JsonValue]:
        """Give the ``data`` object of the event."""
        ...


class Envelope(Struct, frozen=True):
    """What all frames of one turn share. ``task_id`` is the session id; ``created_at`` the start of the turn."""

    message_id: str
    created_at: int
    task_id: str
    session_id: str

    def wrap(self, event: FramePayload) -> dict[str, JsonValue]:
        """Give the whole frame as JSON, keys in RAGFlow's order."""
        return {
            "event": event.event,
            "message_id": self.message_id,
            "created_at": self.created_at,
            "task_id": self.task_id,
            "data": event.data(),
            "session_id": self.session_id,
        }
