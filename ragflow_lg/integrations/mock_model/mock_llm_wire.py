"""Encoding a reply in OpenAI's protocol."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from ragflow_lg.base.lenient_values import map_texts
from ragflow_lg.integrations.mock_model.rules import MockUsage, Reply
from ragflow_lg.integrations.mock_model.scripts import MockRequest

MAX_ECHO_CHARS = 10_000
_CREATED = 1_700_000_000
_CHARS_PER_TOKEN = 4
_JSON, _EVENTS = "application/json", "text/event-stream"
_ERROR_TYPES: Mapping[int, tuple[str, str | None]] = {
    400: ("invalid_request_error", None),
    401: ("authentication_error", "invalid_api_key"),
    403: ("permission_error", None),
    404: ("invalid_request_error", "not_found"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
}


class Answer(Struct, frozen=True):
    """A response: the head, and the pieces in which the body is sent."""

    status: int
    content_type: str
    pieces: tuple[bytes, ...]
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    length: int | None = None
    """The Content-Length, or None for a chunked body."""
    is_cut: bool = False
    """Whether the connection is closed after the pieces, before the body is complete."""
    delay_s: float = 0.0
    piece_delay_s: float = 0.0


def build_error(status: int, message: str, *, headers: Mapping[str, str] | None = None, delay_s: float = 0.0) -> Answer:
    """Return an error in OpenAI's format."""
    kind, code = _ERROR_TYPES.get(status, ("server_error" if status >= 500 else "invalid_request_error", None))
    body = json.dumps({"error": {"message": message, "type": kind, "param": None, "code": code}}).encode()
    return Answer(status, _JSON, (body,), headers or {}, len(body), delay_s=delay_s)


def build_answer(reply: Reply, request: MockRequest, number: int) -> Answer:
    """Return the answer to a request; ``number`` is the request's number."""
    headers = dict(reply.headers)
    if reply.retry_after is not None:
        after = reply.retry_after
        headers["Retry-After"] = after if isinstance(after, str) else f"{after:.3f}".rstrip("0").rstrip(".")
    if reply.garbage is not None:
        body = reply.garbage.encode("utf-8", "replace")
        kind = _EVENTS if request.is_stream and reply.status == 200 else _JSON
        return Answer(reply.status, kind, (body,), headers, len(body), delay_s=reply.delay_s)
    if reply.status >= 300:
        message = reply.error or f"A rule set the status to {reply.status}."
        return build_error(reply.status, message, headers=headers, delay_s=reply.delay_s)
    filled = _FilledReply(reply, request, number)
    return _streamed_answer(filled, headers) if request.is_stream else _whole_answer(filled, headers)


class _FilledReply:
    """A reply with its placeholders replaced with parts of the request."""

    def __init__(self, reply: Reply, request: MockRequest, number: int) -> None:
        self.reply = reply
        self.request = request
        self.id = f"chatcmpl-mock-{number}"
        self._number = number
        text = reply.text if reply.json_ is None else json.dumps(reply.json_, ensure_ascii=False)
        self.text = self._pieces(text)
        self.reasoning = self._pieces(reply.reasoning)
        self.calls: list[dict[str, Any]] = [
            {
                "id": call.id or f"call_mock_{number}_{index}",
                "type": "function",
                "function": {"name": call.name, "arguments": self._arguments(call.arguments)},
            }
            for index, call in enumerate(reply.calls, 1)
        ]

    @property
    def finish_reason(self) -> str:
        return self.reply.finish_reason or ("tool_calls" if self.calls else "stop")

    @property
    def usage(self) -> dict[str, int] | None:
        if self.reply.usage is False:
            return None
        chars = sum(map(len, (*self.text, *self.reasoning))) + sum(len(c["function"]["arguments"]) for c in self.calls)
        usage = self.reply.usage or MockUsage(
            prompt_tokens=-(-self.request.chars // _CHARS_PER_TOKEN), completion_tokens=-(-chars // _CHARS_PER_TOKEN)
        )
        return {**usage.model_dump(), "total_tokens": usage.prompt_tokens + usage.completion_tokens}

    def _arguments(self, arguments: dict[str, Any] | str) -> str:
        if isinstance(arguments, str):
            return self._fill(arguments)
        return json.dumps(map_texts(arguments, self._fill), ensure_ascii=False)

    def _pieces(self, text: str | list[str]) -> list[str]:
        if isinstance(text, list):
            return [self._fill(piece) for piece in text]
        return list(_cut(self._fill(text), self.reply.cut_text))

    def _fill(self, text: str) -> str:
        """Replace placeholders once; inserted text is not scanned again."""
        if "${" not in text:
            return text
        values = {
            "user": self.request.user,
            "last": self.request.last,
            "model": self.request.model,
            "number": str(self._number),
        }
        head, *rest = text.split("${")
        parts = [head]
        for part in rest:
            name, brace, tail = part.partition("}")
            is_known = brace and name in values
            parts.append(f"{values[name][:MAX_ECHO_CHARS]}{tail}" if is_known else "${" + part)
        return "".join(parts)


def _cut(text: str, cuts: int | list[int]) -> Iterator[str]:
    positions = cuts if isinstance(cuts, list) else range(cuts, len(text), cuts) if cuts else ()
    start = 0
    for position in positions:
        if start < position < len(text):
            yield text[start:position]
            start = position
    if start < len(text):
        yield text[start:]


def _whole_answer(filled: _FilledReply, headers: Mapping[str, str]) -> Answer:
    reply = filled.reply
    message: dict[str, Any] = {"role": "assistant", "content": "".join(filled.text) or (None if filled.calls else "")}
    if filled.reasoning:
        message["reasoning_content"] = "".join(filled.reasoning)
    if filled.calls:
        message["tool_calls"] = filled.calls
    completion: dict[str, Any] = {
        "id": filled.id,
        "object": "chat.completion",
        "created": _CREATED,
        "model": filled.request.model,
        "choices": [{"index": 0, "finish_reason": filled.finish_reason, "message": message}],
    }
    if usage := filled.usage:
        completion["usage"] = usage
    body = json.dumps(completion, ensure_ascii=False).encode("utf-8", "replace")
    is_cut = reply.cut_after is not None
    length = len(body) if reply.cut == "connection" or not is_cut else len(body) // 2
    body_sent = body[: len(body) // 2] if is_cut else body
    return Answer(200, _JSON, (body_sent,), headers, length, length != len(body_sent), reply.delay_s)


def _streamed_answer(filled: _FilledReply, headers: Mapping[str, str]) -> Answer:
    reply = filled.reply
    deltas = list(_deltas(filled))
    deltas[0] = {"role": "assistant", **deltas[0]}
    pieces = [_event(_chunk(filled, delta, None)) for delta in deltas]
    is_cut = False
    if reply.cut_after is not None and reply.cut_after < len(pieces):
        pieces = pieces[: reply.cut_after]
        is_cut = reply.cut == "connection"
    elif reply.error_after is not None and reply.error_after < len(pieces):
        error = {"error": {"message": reply.error or "The model failed.", "type": "server_error"}}
        pieces = [*pieces[: reply.error_after], _event(error)]
    else:
        pieces.append(_event(_chunk(filled, {}, filled.finish_reason)))
        if filled.request.wants_usage and (usage := filled.usage):
            pieces.append(_event({**_chunk(filled, {}, None), "choices": [], "usage": usage}))
        pieces.append(b"data: [DONE]\n\n")
    return Answer(
        200, _EVENTS, tuple(pieces), headers, is_cut=is_cut, delay_s=reply.delay_s, piece_delay_s=reply.piece_delay_s
    )


def _deltas(filled: _FilledReply) -> Iterator[dict[str, Any]]:
    """Yield the delta for each streamed piece; there is at least one."""
    for piece in filled.reasoning:
        yield {"reasoning_content": piece}
    for piece in filled.text or ([] if filled.calls or filled.reasoning else [""]):
        yield {"content": piece}
    for number, call in enumerate(filled.calls):
        index = number if filled.reply.calls[number].has_index else None
        for fragment in _fragments(call, filled.reply):
            yield {"tool_calls": [{"index": index, **fragment}]}


def _fragments(call: Mapping[str, Any], reply: Reply) -> Iterator[dict[str, Any]]:
    """Yield the pieces of a call: the first has the id and type; the name ends with the first arguments."""
    function = call["function"]
    names = list(_cut(function["name"], reply.cut_names)) or [""]
    arguments = list(_cut(function["arguments"], reply.cut_arguments)) or [""]
    pieces: list[dict[str, str]] = [{"name": name, "arguments": ""} for name in names]
    pieces[-1]["arguments"] = arguments[0]
    pieces += [{"arguments": piece} for piece in arguments[1:]]
    for number, piece in enumerate(pieces):
        yield {"id": call["id"], "type": "function", "function": piece} if number == 0 else {"function": piece}


def _chunk(filled: _FilledReply, delta: Mapping[str, Any], finish_reason: str | None) -> dict[str, Any]:
    return {
        "id": filled.id,
        "object": "chat.completion.chunk",
        "created": _CREATED,
        "model": filled.request.model,
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
    }


def _event(data: Mapping[str, Any]) -> bytes:
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n".encode("utf-8", "replace")
