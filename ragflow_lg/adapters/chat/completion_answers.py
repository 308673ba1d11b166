"""Normalization of answers from OpenAI-compatible servers to OpenAI's format.

Harmless deviations are repaired: numbers as ids, objects as arguments, invalid token counts. Any other deviation raises
a `ValueError` that names the part of the answer and the JSON type found there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

CALLS = "calls"
"""``additional_kwargs`` key for the calls in a complete answer as sent by the server, each ``{id, name, args}``."""

_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
_MAX_DETAIL_CHARS = 300


def normalize_answer(answer: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return a complete answer with exactly one choice, and its tool calls, which are removed from the answer.

    Raises:
        ValueError: if the answer is an error or is in another format.
    """
    body = _object(answer, "it")
    _raise_error(body)
    choices = body.get("choices")
    if not isinstance(choices, list) or not choices:
        detail = next((body[name] for name in ("detail", "message", "msg") if isinstance(body.get(name), str)), "")
        raise ValueError("it has no choices" + (f"; it says: {detail[:_MAX_DETAIL_CHARS]}" if detail else ""))
    choice = _object(cast("list[Any]", choices)[0], "its choice")
    message = _normalize_message(_object(choice.get("message"), "its message"))
    calls = [
        {"id": call["id"], "name": call["function"]["name"], "args": call["function"]["arguments"]}
        for call in message.pop("tool_calls", ())
    ]
    message["role"] = "assistant"
    return {**body, "choices": [{**choice, "message": message}], "usage": _usage(body.get("usage"))}, calls


def normalize_chunk(chunk: Any) -> dict[str, Any]:
    """Return a chunk of a streamed answer with at most one choice.

    Raises:
        ValueError: if the chunk is an error or is in another format.
    """
    body = _object(chunk, "a chunk of it")
    _raise_error(body)
    choices: Any = body.get("choices") or []
    if not isinstance(choices, list):
        raise ValueError(f"its choices are {_json_type(choices)}")
    usage = _usage(chunk.get("usage"))
    if not choices:
        return {**body, "choices": [], "usage": usage}
    choice = _object(cast("list[Any]", choices)[0], "its choice")
    delta = _normalize_message(_object(choice.get("delta") or {}, "its delta"))
    if delta.get("role") != "assistant":
        delta.pop("role", None)
    return {**body, "choices": [{**choice, "delta": delta}], "usage": usage}


def _normalize_message(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message or delta with normalized content and calls."""
    content = message.get("content")
    if isinstance(content, list):
        parts = cast("list[Any]", content)
        if not all(isinstance(part, str | dict) for part in parts):
            raise ValueError("its content is a list with items other than strings and objects")
    elif content is not None and not isinstance(content, str):
        raise ValueError(f"its content is {_json_type(content)}")
    fields = dict(message)
    if not content and isinstance(message.get("refusal"), str):
        fields["content"] = message["refusal"]
    calls = message.get("tool_calls")
    fields.pop("tool_calls", None)
    fields.pop("function_call", None)
    if calls is None:
        return fields
    if not isinstance(calls, list):
        raise ValueError(f"its tool_calls are {_json_type(calls)}")
    return {**fields, "tool_calls": [_normalize_call(call) for call in cast("list[Any]", calls)]}


def _normalize_call(call: Any) -> dict[str, Any]:
    fields = _object(call, "a tool call")
    function = _object(fields.get("function") or {}, "the function of a tool call")
    name, arguments, index = function.get("name"), function.get("arguments"), fields.get("index")
    if name is not None and not isinstance(name, str):
        raise ValueError(f"the name of a tool call is {_json_type(name)}")
    if arguments is not None and not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    id_ = fields.get("id")
    return {
        "index": index if type(index) is int else None,
        "id": str(id_) if isinstance(id_, str | int) else None,
        "type": "function",
        "function": {"name": name or "", "arguments": arguments or ""},
    }


def _usage(usage: Any) -> dict[str, int] | None:
    """Return the token counts that are integers, or None if there are none."""
    if not isinstance(usage, dict):
        return None
    counts = cast("dict[str, Any]", usage)
    return {name: counts[name] for name in _COUNTS if type(counts.get(name)) is int} or None


def _raise_error(answer: Mapping[str, Any]) -> None:
    """Raise ValueError for an error object: some servers send one with status 200."""
    error = answer.get("error")
    if error:
        detail: Any = cast("dict[str, Any]", error).get("message") if isinstance(error, dict) else error
        raise ValueError(f"it is an error: {str(detail)[:_MAX_DETAIL_CHARS]}")


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what} is {_json_type(value)}" + ("" if value is None else ", not an object"))
    return cast("dict[str, Any]", value)


def _json_type(value: Any) -> str:
    for type_, name in ((str, "a string"), (bool, "a boolean"), ((int, float), "a number"), (list, "a list")):
        if isinstance(value, type_):
            return name
    return "null or missing" if value is None else "an object"
