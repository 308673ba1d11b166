"""Chat completions: the object and the chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ragflow_lg.base.errors import RequestError
from ragflow_lg.base.lenient_values import as_map
from ragflow_lg.runs.wire.wire_events import Message, MessageEnd, MessageReset, UserInputs
from ragflow_lg.server.http.openai.openai_turns import TurnEnd, TurnWriter, describe_forms
from ragflow_lg.server.http.shared.ragflow_1 import CANCELLED, describe_form, list_reference
from ragflow_lg.server.streaming.sse import OPENAI_DONE, openai_frame

if TYPE_CHECKING:
    from ragflow_lg.runs.wire.wire_events import WireEvent
    from ragflow_lg.services.chat import Usage


class ChatWriter(TurnWriter):
    """A writer of chat completions, whose id is that of the session."""

    _has_text = False
    """Whether a chunk with text has been written."""

    def write(self, event: WireEvent) -> bytes:
        """Return the chunk of an event, or nothing."""
        self.note(event)
        if isinstance(event, Message) and not event.audio_binary:  # chunks contain text only
            text = "<think>" if event.start_to_think else "</think>" if event.end_to_think else event.content
            self._has_text = self._has_text or bool(text)
            return self._build_chunk({"content": text})
        if isinstance(event, MessageReset):  # what was sent cannot be taken back
            return self._build_chunk({"content": "", "message_reset": event.data()})
        if isinstance(event, MessageEnd):
            reference = dict(as_map(event.extras.get("reference")))
            shown = {"reference": self._show_reference(reference)} if reference else {}
            return self._build_chunk({"content": "", **shown})
        if isinstance(event, UserInputs) and event.text and not self._has_text:
            self._has_text = True
            return self._build_chunk({"content": event.text})
        return b""

    def finish(self, end: TurnEnd) -> bytes:
        """Return the last chunks of a turn."""
        return self._build_last(end) + OPENAI_DONE

    def build(self, end: TurnEnd) -> dict[str, Any]:
        """Return the object."""
        form = self.answer.form
        self._require_answer(end, form)
        message: dict[str, Any] = {
            "role": "assistant",
            "content": self.answer.text or (form.text if form is not None else ""),
        }
        if end.has_failed:
            message["refusal"] = end.error
        if self.reference:
            message["reference"] = self._show_reference(self.reference)
        if form is not None:
            message["waiting_for_user"] = describe_forms(form)
        reason = "waiting_for_user" if form is not None else self.finish_reason
        return {
            "id": self.session_id,
            "object": "chat.completion",
            "created": self.created,
            "model": self.model,
            "param": None,
            "usage": _describe_usage(end.usage),
            "choices": [{"message": message, "logprobs": None, "finish_reason": reason, "index": 0}],
        }

    def _build_last(self, end: TurnEnd) -> bytes:
        failure = self._build_chunk({"content": f"**ERROR**: {end.error}", "error": end.error}) if end.error else b""
        form = self.answer.form
        reason, more = (
            ("waiting_for_user", {"waiting_for_user": describe_forms(form)}) if form else (self.finish_reason, {})
        )
        return failure + self._build_chunk({"content": "", **more}, reason, end.usage)

    def _build_chunk(self, delta: dict[str, Any], reason: str | None = None, usage: Usage | None = None) -> bytes:
        content, more = delta["content"], {name: value for name, value in delta.items() if name != "content"}
        choice_delta = {"content": content, "role": "assistant", "function_call": None, "tool_calls": None, **more}
        frame = {
            "id": self.session_id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "system_fingerprint": "",
            "usage": None if usage is None else _describe_usage(usage),
            "choices": [{"delta": choice_delta, "finish_reason": reason, "index": 0, "logprobs": None}],
        }
        return openai_frame(frame)

    def _require_answer(self, end: TurnEnd, form: UserInputs | None) -> None:
        """Check that a turn has ended in a way that an answer can express."""

    def _show_reference(self, reference: dict[str, Any]) -> dict[str, Any]:
        return reference


class ChatWriter1(ChatWriter):
    """A writer for what RAGFlow 1.0 sends on its own path."""

    def _build_last(self, end: TurnEnd) -> bytes:
        if end.error:
            failure = {"message": end.error, "type": "server_error"}
            return self._build_chunk({"content": f"**ERROR**: {end.error}", "error": failure}, "error", end.usage)
        if end.status == "cancelled":
            delta = {"content": None, "cancelled": {"message": CANCELLED}}
            return self._build_chunk(delta, "cancelled", end.usage)
        if self.answer.form is not None:
            delta = {"content": None, "waiting_for_user": describe_form(self.answer.form)}
            return self._build_chunk(delta, "waiting_for_user", end.usage)
        return self._build_chunk({"content": None}, self.finish_reason, end.usage)

    def _require_answer(self, end: TurnEnd, form: UserInputs | None) -> None:
        if end.status == "cancelled":
            raise RequestError(CANCELLED, 409, status=409)
        if form is not None:
            node = next(iter(form.nodes), "")
            message = f"Agent is waiting for user input. cpn_id: {node} {form.tips}".rstrip()
            raise RequestError(f"{message} session_id: {self.session_id}", 409, status=409)

    def _show_reference(self, reference: dict[str, Any]) -> dict[str, Any]:
        return list_reference(reference)


def _describe_usage(usage: Usage) -> dict[str, Any]:
    """Return the tokens that the models have reported."""
    details = {"reasoning_tokens": 0, "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0}
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "completion_tokens_details": details,
    }
