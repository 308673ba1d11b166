"""From a reply to the bytes that OpenAI's protocol has for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from msgspec import Struct, field

from ragflow_lg.server.devtools.mock_llm.rules import MockUsage, Reply
from ragflow_lg.server.devtools.mock_llm.scripts import Asked

__all__ = ["Answer", "answer_of", "error_answer"]

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
    """What goes out: the head, and the body in the pieces in which it is sent."""

    status: int
    content_type: str
    pieces: tuple[bytes, ...]
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    length: int | None = None
    """Of the whole body; None where it is told as it goes."""
    is_cut: bool = False
    """Whether the connection breaks off behind the pieces."""
    delay_s: float = 0.0
    piece_delay_s: float = 0.0


def error_answer(
    status: int, message: str, *, headers: Mapping[str, str] | None = None, delay_s: float = 0.0
) -> Answer:
    """Give an error in OpenAI's form."""
    kind, code = _ERROR_TYPES.get(status, ("server_error" if status >= 500 else "invalid_request_error", None))
    body = json.dumps({"error": {"message": message, "type": kind, "param": None, "code": code}}).encode()
    return Answer(status, _JSON, (body,), headers or {}, len(body), delay_s=delay_s)


def answer_of(reply: Reply, asked: Asked, number: int) -> Answer:
    """Give the answer that a reply makes to a request; ``number`` is that of the request."""
    headers = dict(reply.headers)
    if reply.retry_after is not None:
        after = reply.retry_after
        headers["Retry-After"] = after if isinstance(after, str) else f"{after:.3f}".rstrip("0").rstrip(".")
    if reply.garbage is not None:
        body = reply.garbage.encode("utf-8", "replace")
        kind = _EVENTS if asked.is_stream and reply.status == 200 else _JSON
        return Answer(reply.status, kind, (body,), headers, len(body), delay_s=reply.delay_s)
    if reply.status >= 300:
        message = reply.error or f"The rules say: status {reply.status}."
        return error_answer(reply.status, message, headers=headers, delay_s=reply.delay_s)
    said = _Said(reply, asked, number)
    return _streamed(said, headers) if asked.is_stream else _whole(said, headers)


class _Said:
    """A reply with the parts of the request filled in."""

    def __init__(self, reply: Reply, asked: Asked, number: int) -> None:
        self.reply = reply
        self.asked = asked
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
        said = sum(map(len, (*self.text, *self.reasoning))) + sum(len(c["function"]["arguments"]) for c in self.calls)
        used = self.reply.usage or MockUsage(
            prompt_tokens=-(-self.asked.chars // _CHARS_PER_TOKEN), completion_tokens=-(-said // _CHARS_PER_TOKEN)
        )
        return {**used.model_dump(), "total_tokens": used.prompt_tokens + used.completion_tokens}

    def _arguments(self, arguments: dict[str, Any] | str) -> str:
        if isinstance(arguments, str):
            return self._filled(arguments)
        return json.dumps(_in_texts(arguments, self._filled), ensure_ascii=False)

    def _pieces(self, text: str | list[str]) -> list[str]:
        if isinstance(text, list):
            return [self._filled(piece) for piece in text]
        return list(_cut(self._filled(text), self.reply.cut_text))

    def _filled(self, text: str) -> str:
        """Fill in, each place once: what is filled in is not looked at again."""
        if "${" not in text:
            return text
        values = {
            "user": self.asked.user,
            "last": self.asked.last,
            "model": self.asked.model,
            "number": str(self._number),
        }
        head, *rest = text.split("${")
        filled = [head]
        for part in rest:
            name, brace, tail = part.partition("}")
            is_known = brace and name in values
            filled.append(f"{values[name][:MAX_ECHO_CHARS]}{tail}" if is_known else "${" + part)
        return "".join(filled)


def _in_texts(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _in_texts(entry, change) for key, entry in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_in_texts(entry, change) for entry in cast("list[Any]", value)]
    return value


def _cut(text: str, cuts: int | list[int]) -> Iterator[str]:
    places = cuts if isinstance(cuts, list) else range(cuts, len(text), cuts) if cuts else ()
    start = 0
    for place in places:
        if start < place < len(text):
            yield text[start:place]
            start = place
    if start < len(text):
        yield text[start:]


def _whole(said: _Said, headers: Mapping[str, str]) -> Answer:
    reply = said.reply
    message: dict[str, Any] = {"role": "assistant", "content": "".join(said.text) or (None if said.calls else "")}
    if said.reasoning:
        message["reasoning_content"] = "".join(said.reasoning)
    if said.calls:
        message["tool_calls"] = said.calls
    completion: dict[str, Any] = {
        "id": said.id,
        "object": "chat.completion",
        "created": _CREATED,
        "model": said.asked.model,
        "choices": [{"index": 0, "finish_reason": said.finish_reason, "message": message}],
    }
    if usage := said.usage:
        completion["usage"] = usage
    body = json.dumps(completion, ensure_ascii=False).encode("utf-8", "replace")
    is_cut = reply.cut_after is not None
    length = len(body) if reply.cut == "connection" or not is_cut else len(body) // 2
    sent = body[: len(body) // 2] if is_cut else body
    return Answer(200, _JSON, (sent,), headers, length, length != len(sent), reply.delay_s)


def _streamed(said: _Said, headers: Mapping[str, str]) -> Answer:
    reply = said.reply
    deltas = list(_deltas(said))
    deltas[0] = {"role": "assistant", **deltas[0]}
    pieces = [_event(_chunk(said, delta, None)) for delta in deltas]
    is_cut = False
    if reply.cut_after is not None and reply.cut_after < len(pieces):
        pieces = pieces[: reply.cut_after]
        is_cut = reply.cut == "connection"
    elif reply.error_after is not None and reply.error_after < len(pieces):
        error = {"error": {"message": reply.error or "the model fell over", "type": "server_error"}}
        pieces = [*pieces[: reply.error_after], _event(error)]
    else:
        pieces.append(_event(_chunk(said, {}, said.finish_reason)))
        if said.asked.wants_usage and (usage := said.usage):
            pieces.append(_event({**_chunk(said, {}, None), "choices": [], "usage": usage}))
        pieces.append(b"data: [DONE]\n\n")
    return Answer(
        200, _EVENTS, tuple(pieces), headers, is_cut=is_cut, delay_s=reply.delay_s, piece_delay_s=reply.piece_delay_s
    )


def _deltas(said: _Said) -> Iterator[dict[str, Any]]:
    """Give what each streamed piece adds; there is always one."""
    for piece in said.reasoning:
        yield {"reasoning_content": piece}
    for piece in said.text or ([] if said.calls or said.reasoning else [""]):
        yield {"content": piece}
    for number, call in enumerate(said.calls):
        index = number if said.reply.calls[number].has_index else None
        for fragment in _fragments(call, said.reply):
            yield {"tool_calls": [{"index": index, **fragment}]}


def _fragments(call: Mapping[str, Any], reply: Reply) -> Iterator[dict[str, Any]]:
    """Give the pieces of a call: id and type with the first, the end of the name with the first arguments."""
    function = call["function"]
    names = list(_cut(function["name"], reply.cut_names)) or [""]
    arguments = list(_cut(function["arguments"], reply.cut_arguments)) or [""]
    pieces: list[dict[str, str]] = [{"name": name, "arguments": ""} for name in names]
    pieces[-1]["arguments"] = arguments[0]
    pieces += [{"arguments": piece} for piece in arguments[1:]]
    for number, piece in enumerate(pieces):
        yield {"id": call["id"], "type": "function", "function": piece} if number == 0 else {"function": piece}


def _chunk(said: _Said, delta: Mapping[str, Any], finish_reason: str | None) -> dict[str, Any]:
    return {
        "id": said.id,
        "object": "chat.completion.chunk",
        "created": _CREATED,
        "model": said.asked.model,
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
    }


def _event(data: Mapping[str, Any]) -> bytes:
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n".encode("utf-8", "replace")
