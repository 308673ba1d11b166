"""Responses: the object and the events of its stream, in OpenAI's order."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, field

from ragflow_lg.base.values import join_surrogates
from ragflow_lg.runs.wire.wire_events import Message, MessageEnd, MessageReset, UserInputs, message_frames
from ragflow_lg.server.http.openai.openai_turns import TurnEnd, TurnWriter, describe_forms
from ragflow_lg.server.streaming.sse import native_frame
from ragflow_lg.services.chat import Usage

if TYPE_CHECKING:
    from ragflow_lg.base.errors import RagflowLgError
    from ragflow_lg.runs.wire.wire_events import Envelope, WireEvent

PREFIX = "resp_"
_ITEMS = {"message": "msg_", "reasoning": "rs_"}
"""The kinds of items, and what their ids begin with."""
_REASONS = {"length": "max_output_tokens", "content_filter": "content_filter"}
_ENDS = {"completed": "response.completed", "failed": "response.failed"}
"""The last event of a stream, by status; ``response.incomplete`` for others."""

_TEXT = ("response.content_part", "response.output_text", "content_index")
_SUMMARY = ("response.reasoning_summary_part", "response.reasoning_summary_text", "summary_index")


def run_id_of(item_id: str) -> str:
    """Return the id of the run that has given a response or an item.

    >>> run_id_of("msg_5f0c_0"), run_id_of("resp_5f0c"), run_id_of("5f0c")
    ('5f0c', '5f0c', '5f0c')
    """
    return item_id.removeprefix(PREFIX).removeprefix("msg_").removeprefix("rs_").partition("_")[0]


class Item(Struct):
    """A part of the output: a text that is shown, or thinking."""

    kind: Literal["message", "reasoning"]
    id: str
    index: int
    pieces: list[str] = field(default_factory=list[str])
    """Its text. A piece may contain half a character."""
    status: str = "in_progress"
    is_withdrawn: bool = False
    """Whether another item has replaced it."""

    @property
    def text(self) -> str:
        """The text so far."""
        return join_surrogates("".join(self.pieces))

    def part(self) -> dict[str, Any]:
        """Return its only part."""
        if self.kind == "reasoning":
            return {"type": "summary_text", "text": self.text}
        return {"type": "output_text", "text": self.text, "annotations": [], "logprobs": []}

    def build(self) -> dict[str, Any]:
        """Return the item. It has no part before that has been added."""
        parts = [self.part()] if self.status != "in_progress" else []
        if self.kind == "reasoning":
            return {"id": self.id, "type": "reasoning", "summary": parts, "status": self.status}
        return {"id": self.id, "type": "message", "role": "assistant", "content": parts, "status": self.status}


class ResponseWriter(TurnWriter):
    """A writer of responses, whose id is that of the run. Thinking is an item of its own, as are all Messages.

    If a model starts its answer again, the items that it has written are withdrawn: they stay in the stream, but not in
    the response at its end.
    """

    def __init__(self, model: str, created: int, session_id: str = "", **echoed: Any) -> None:
        """Initialize. ``echoed`` are fields of the request that the response repeats."""
        super().__init__(model, created, session_id)
        self._echoed = echoed
        self._items: list[Item] = []
        self._message_start = 0
        self._is_thinking = False
        self._number = 0
        self._frames: list[bytes] = []
        self.first_event = math.inf
        """The number of the first event that the client gets: infinite for one who does not stream."""

    def begin(self, envelope: Envelope) -> bytes:
        """Return the first events."""
        super().begin(envelope)
        for name in ("response.created", "response.in_progress"):
            self._emit(name, response=self.describe("in_progress"))
        return self._take()

    def write(self, event: WireEvent) -> bytes:
        """Return the events of the stream that an event stands for."""
        self.note(event)
        return self._take()

    def note(self, event: WireEvent) -> str:
        """Note an event."""
        text = super().note(event)
        if isinstance(event, Message):
            self._add(event)
        elif isinstance(event, MessageEnd):
            self._close()
            self._message_start = len(self._items)
        elif isinstance(event, MessageReset):
            self._close("incomplete")
            for item in self._items[self._message_start :]:
                item.is_withdrawn = True
            self._is_thinking = False
            for frame in message_frames(event.content):
                self._add(frame)
        elif isinstance(event, UserInputs) and event.text and all(item.kind == "reasoning" for item in self._kept()):
            self._add(Message(event.text))
        return text

    def finish(self, end: TurnEnd) -> bytes:
        """Return the last events."""
        response = self.build(end)
        self._emit(_ENDS.get(response["status"], "response.incomplete"), response=response)
        return self._take()

    def build(self, end: TurnEnd) -> dict[str, Any]:
        """Return the response at its end."""
        reason = _REASONS.get(self.finish_reason)
        status = "cancelled" if end.status == "cancelled" else "incomplete" if reason else "completed"
        if end.has_failed and reason != "content_filter":
            status, reason = "failed", None
        self._close("completed" if status == "completed" else "incomplete")
        form = self.answer.form
        return self.describe(
            status,
            usage=end.usage,
            output=self._output(),
            error=end.error if status == "failed" else "",
            reason=reason if status == "incomplete" else None,
            form=describe_forms(form) if form is not None else None,
        )

    def refuse(self, error: RagflowLgError) -> list[bytes]:
        """Return the only event of a turn that is refused after it has waited."""
        self._emit("error", code="server_error", message=str(error), param=None)
        return [self._take()]

    def describe(
        self,
        status: str,
        *,
        usage: Usage | None = None,
        output: list[dict[str, Any]] | None = None,
        error: str = "",
        reason: str | None = None,
        form: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Return the object of a response, which repeats the fields of the request."""
        response: dict[str, Any] = {
            "id": PREFIX + self.run_id,
            "object": "response",
            "created_at": self.created,
            "status": status,
            "background": False,
            "error": {"code": "server_error", "message": error} if error else None,
            "incomplete_details": {"reason": reason} if reason else None,
            "instructions": None,
            "max_output_tokens": None,
            "metadata": {},
            "model": self.model,
            "output": output or [],
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "reasoning": {"effort": None, "summary": None},
            "service_tier": "default",
            "session_id": self.session_id,
            "store": True,
            "temperature": None,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": None,
            "truncation": "disabled",
            "usage": _describe_usage(usage) if usage is not None else None,
            "user": None,
            **self._echoed,
        }
        return response if form is None else {**response, "waiting_for_user": form}

    def build_text(self, text: str, reference: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the output of a response of which only the text is known."""
        self.answer.reference = reference
        if text:
            self._items = [Item("message", f"msg_{self.run_id}_0", 0, [text], "completed")]
        return self._output()

    def _kept(self) -> list[Item]:
        return [item for item in self._items if not item.is_withdrawn]

    def _output(self) -> list[dict[str, Any]]:
        items = [item.build() for item in self._kept()]
        shown = next((item for item in reversed(items) if item["type"] == "message"), None)
        if shown is not None and any(self.answer.reference.values()):
            shown["reference"] = self.answer.reference
        return items

    def _add(self, message: Message) -> None:
        """Add a piece to the open item, or open another one."""
        self._is_thinking = (self._is_thinking or message.start_to_think) and not message.end_to_think
        if not message.content or message.audio_binary:
            return
        kind = "reasoning" if self._is_thinking else "message"
        item = self._items[-1] if self._items else None
        if item is None or item.status != "in_progress" or item.kind != kind:
            self._close()
            item = self._open(kind)
        item.pieces.append(message.content)
        self._emit_part(item, 1, ".delta", delta=message.content)

    def _open(self, kind: Literal["message", "reasoning"]) -> Item:
        number = len(self._items)
        item = Item(kind, f"{_ITEMS[kind]}{self.run_id}_{number}", number)
        self._items.append(item)
        self._emit("response.output_item.added", output_index=item.index, item=item.build())
        self._emit_part(item, 0, ".added", part=item.part())
        return item

    def _close(self, status: str = "completed") -> None:
        if not self._items or self._items[-1].status != "in_progress":
            return
        item = self._items[-1]
        item.status, item.pieces = status, [item.text]
        self._emit_part(item, 1, ".done", text=item.text)
        self._emit_part(item, 0, ".done", part=item.part())
        self._emit("response.output_item.done", output_index=item.index, item=item.build())

    def _emit_part(self, item: Item, name: int, action: str, **fields: Any) -> None:
        names = _TEXT if item.kind == "message" else _SUMMARY
        if name and item.kind == "message":
            fields["logprobs"] = []
        self._emit(names[name] + action, item_id=item.id, output_index=item.index, **{names[2]: 0}, **fields)

    def _emit(self, name: str, **fields: Any) -> None:
        if self._number >= self.first_event:
            self._frames.append(native_frame({"type": name, "sequence_number": self._number, **fields}, name))
        self._number += 1

    def _take(self) -> bytes:
        taken = b"".join(self._frames)
        self._frames.clear()
        return taken


def _describe_usage(usage: Usage) -> dict[str, Any]:
    """Return the tokens that the models have reported."""
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
