"""RAGFlow's run events, as received by its clients, and the answer that they contain.

Names, keys and their order follow RAGFlow's ``agent/canvas.py``. Each class builds the ``data`` object of an event, and
`Envelope` adds the rest. ``created_at`` is always in epoch seconds; RAGFlow sometimes sends monotonic time instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

from msgspec import Struct, field

from ragflow_lg.base.thinking import split_thinking
from ragflow_lg.base.values import JsonValue, join_surrogates
from ragflow_lg.services.chat import NO_USAGE, Usage


def name_visit(place: str, node: str) -> str:
    """Return the name of an execution of a node at a place."""
    return f"{place} {node}"


class WorkflowStarted(Struct, omit_defaults=True):
    """A new turn has started; not sent when a paused turn continues."""

    event: ClassVar[str] = "workflow_started"
    inputs: dict[str, Any] | None
    is_demo: bool = False
    """Whether the demo model answers, and samples take the place of services. RAGFlow has no such field."""

    def data(self) -> dict[str, JsonValue]:
        """Return the ``data`` object of the event."""
        return {"inputs": self.inputs, **({"demo": True} if self.is_demo else {})}


class WireNodeStarted(Struct, omit_defaults=True):
    """A node has started."""

    event: ClassVar[str] = "node_started"
    component_id: str
    component_name: str
    component_type: str
    created_at: int
    place: str = ""
    """The numbers of the enclosing rounds. Clients do not receive it."""

    def data(self) -> dict[str, JsonValue]:
        """Return the ``data`` object of the event."""
        return {
            "inputs": None,
            "created_at": self.created_at,
            "component_id": self.component_id,
            "component_name": self.component_name,
            "component_type": self.component_type,
            "thoughts": "",
        }


class WireNodeFinished(Struct, omit_defaults=True):
    """A node has finished; ``error`` is the reason if it failed."""

    event: ClassVar[str] = "node_finished"
    inputs: dict[str, JsonValue]
    outputs: dict[str, JsonValue]
    component_id: str
    component_name: str
    component_type: str
    error: str | None
    elapsed_time: float
    created_at: float
    place: str = ""
    """The numbers of the enclosing rounds. Clients do not receive it."""
    notices: tuple[str, ...] = ()
    """What an author should know although the node did not fail. RAGFlow has no such field."""
    finish_reason: str = ""
    """``length`` or ``content_filter`` if the model's answer was cut off or blocked. RAGFlow has no such field."""

    def data(self) -> dict[str, JsonValue]:
        """Return the ``data`` object of the event."""
        notices: dict[str, JsonValue] = {"notices": [*self.notices]} if self.notices else {}
        return {
            "inputs": self.inputs,
            "outputs": {**self.outputs, "_created_time": self.created_at, "_elapsed_time": self.elapsed_time},
            "component_id": self.component_id,
            "component_name": self.component_name,
            "component_type": self.component_type,
            "error": self.error,
            "elapsed_time": self.elapsed_time,
            "created_at": self.created_at,
            **notices,
            **({"finish_reason": self.finish_reason} if self.finish_reason else {}),
        }


class Message(Struct, omit_defaults=True):
    """A piece of the answer. At the start or end of a thinking section ``content`` is empty and a flag is set."""

    event: ClassVar[str] = "message"
    content: str
    start_to_think: bool = False
    end_to_think: bool = False
    audio_binary: str = ""
    """The audio of a sentence in hexadecimal digits; ``content`` is empty then."""
    visit: str = ""
    """The execution that shows the text, as named by `name_visit`. Clients do not receive it."""
    is_aside: bool = False
    """Whether the piece is no part of the stored text. Clients do not receive it."""

    def data(self) -> dict[str, JsonValue]:
        """Return the ``data`` object of the event."""
        data: dict[str, JsonValue] = {"content": self.content}
        if self.start_to_think:
            data["start_to_think"] = True
        if self.end_to_think:
            data["end_to_think"] = True
        if self.audio_binary:
            data["audio_binary"] = self.audio_binary
        return data


class MessageEnd(Struct, omit_defaults=True):
    """The end of one Message. ``extras`` may contain ``status``, ``attachment``, ``downloads`` and ``reference``."""

    event: ClassVar[str] = "message_end"
    extras: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    visit: str = ""
    """The execution that has shown the text. Clients do not receive it."""

    def data(self) -> dict[str, JsonValue]:
        """Return the ``data`` object of the event."""
        return self.extras


class MessageReset(Struct, omit_defaults=True):
    """The text of the current Message is replaced by ``content``.

    A model starts its answer again, or what it has sent so far turns out to be thinking, which follows as such.

    ``content`` is the part before that answer, with ``<think>`` tags. RAGFlow has no such event; its clients ignore it.
    """

    event: ClassVar[str] = "message_reset"
    content: str
    visit: str = ""
    """The execution that has shown the text. Clients do not receive it."""

    def data(self) -> dict[str, JsonValue]:
        """Return the ``data`` object of the event."""
        return {"content": self.content}


class UserInputs(Struct, omit_defaults=True):
    """The turn is waiting for an answer to a form."""

    event: ClassVar[str] = "user_inputs"
    inputs: dict[str, Any]
    tips: str
    nodes: tuple[str, ...] = ()
    """The nodes that wait. Clients of RAGFlow 0.27 do not receive it."""
    all_tips: str = ""
    """The tips of several forms. RAGFlow's clients receive the last ones only."""

    @property
    def text(self) -> str:
        """The tips of all forms."""
        return self.all_tips or self.tips

    def data(self) -> dict[str, JsonValue]:
        """Return the ``data`` object of the event."""
        return {"inputs": self.inputs, "tips": self.tips}


class WorkflowFinished(Struct):
    """The turn has succeeded or was cancelled (``outputs`` is then RAGFlow's text for that)."""

    event: ClassVar[str] = "workflow_finished"
    inputs: dict[str, Any] | None
    outputs: JsonValue
    elapsed_time: float
    created_at: float
    usage: Usage = NO_USAGE
    """The total token usage of the turn."""

    def data(self) -> dict[str, JsonValue]:
        """Return the ``data`` object of the event."""
        prompt, completion = self.usage.prompt_tokens, self.usage.completion_tokens
        return {
            "inputs": self.inputs,
            "outputs": self.outputs,
            "elapsed_time": self.elapsed_time,
            "created_at": self.created_at,
            "usage": {
                "prompt_tokens": prompt,
                "completion_tokens": completion,
                "total_tokens": prompt + completion,
                "calls": self.usage.calls,
            },
        }


WireEvent: TypeAlias = (
    WorkflowStarted
    | WireNodeStarted
    | WireNodeFinished
    | Message
    | MessageEnd
    | MessageReset
    | UserInputs
    | WorkflowFinished
)


class FramePayload(Protocol):
    """The content of a frame: a wire event or an agent record."""

    event: ClassVar[str]

    def data(self) -> dict[str, JsonValue]:
        """Return the ``data`` object of the event."""
        ...


class Envelope(Struct, frozen=True):
    """The fields that all frames of a turn share. ``task_id`` is the session id; ``created_at`` is the turn's start."""

    message_id: str
    created_at: int
    task_id: str
    session_id: str

    def wrap(self, event: FramePayload) -> dict[str, JsonValue]:
        """Return the complete frame as JSON, with the keys in RAGFlow's order."""
        return {
            "event": event.event,
            "message_id": self.message_id,
            "created_at": self.created_at,
            "task_id": self.task_id,
            "data": event.data(),
            "session_id": self.session_id,
        }


def message_frames(text: str) -> Iterator[Message]:
    """Yield the frames of a text, with thinking sections marked."""
    for piece, mark, is_aside in split_thinking(text):
        yield Message(piece, start_to_think=mark == "start", end_to_think=mark == "end", is_aside=is_aside)


class AnswerText:
    """Collects the text and the sources of all Messages, and the form that the turn waits at.

    A `MessageReset` replaces the text of the Message that is being sent.

    ``thinking`` determines what becomes of thinking sections: they are ``omitted``, ``tagged`` with ``<think>``, or
    kept as plain ``text``, without those that are no part of the stored text.
    """

    def __init__(self, thinking: Literal["omitted", "tagged", "text"] = "omitted") -> None:
        self._thinking = thinking
        self._pieces: list[str] = []
        self._message_start = 0
        self._is_thinking = False
        self.reference: dict[str, dict[str, Any]] = {}
        """The sources of all Messages, such as ``chunks`` by number."""
        self.form: UserInputs | None = None
        """The last form."""
        self.nodes: set[str] = set()
        """The nodes that have started."""

    @property
    def tips(self) -> str:
        """The text that the form shows, or ``""``."""
        return self.form.tips if self.form is not None else ""

    @property
    def text(self) -> str:
        """The text so far. Each piece may contain half a character; the text does not."""
        return join_surrogates("".join(self._pieces))

    def feed(self, event: WireEvent) -> str:
        """Process the next event; return the text that it adds."""
        if isinstance(event, Message):
            text = event.content
            if self._thinking == "tagged":
                text = ("<think>" if event.start_to_think else "</think>" if event.end_to_think else "") + text
            else:
                self._is_thinking = (self._is_thinking or event.start_to_think) and not event.end_to_think
                text = "" if event.is_aside or (self._is_thinking and self._thinking == "omitted") else text
            self._pieces.append(text)
            return text
        if isinstance(event, WireNodeStarted):
            self.nodes.add(event.component_id)
        elif isinstance(event, MessageEnd):
            self._message_start = len(self._pieces)
            reference = event.extras.get("reference")
            for name, part in reference.items() if isinstance(reference, dict) else ():
                if isinstance(part, dict):
                    self.reference.setdefault(name, {}).update(part)
        elif isinstance(event, UserInputs):
            self.form = event
        elif isinstance(event, MessageReset):
            del self._pieces[self._message_start :]
            self._is_thinking = False
            for frame in message_frames(event.content):
                self.feed(frame)
        return ""
