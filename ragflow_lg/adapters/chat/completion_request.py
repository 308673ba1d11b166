"""What OpenAI-compatible servers really answer, brought into OpenAI's form, or a plain word on what is odd about it.

Harmless departures are mended: numbers in place of ids, arguments that are objects, counts that are none. Of all others
a `ValueError` says in words what was found where.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

__all__ = ["CALLS", "answer_in_form", "chunk_in_form"]

CALLS = "calls"
"""Key of ``additional_kwargs`` with the calls of a whole answer as they were written, each ``{id, name, args}``."""

_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
_MAX_SAID_CHARS = 300


def answer_in_form(answer: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Give a whole answer with one choice, and the calls in it, which stand there no more.

    Raises:
        ValueError: if it is none.
    """
    held = _object(answer, "it")
    _refuse_error(held)
    choices = held.get("choices")
    if not isinstance(choices, list) or not choices:
        said = next((held[name] for name in ("detail", "message", "msg") if isinstance(held.get(name), str)), "")
        raise ValueError("it has no choices" + (f"; it says: {said[:_MAX_SAID_CHARS]}" if said else ""))
    choice = _object(cast("list[Any]", choices)[0], "its choice")
    message = _message(_object(choice.get("message"), "its message"))
    calls = [
        {"id": call["id"], "name": call["function"]["name"], "args": call["function"]["arguments"]}
        for call in message.pop("tool_calls", ())
    ]
    message["role"] = "assistant"
    return {**held, "choices": [{**choice, "message": message}], "usage": _usage(held.get("usage"))}, calls


def chunk_in_form(chunk: Any) -> dict[str, Any]:
    """Give a piece of a streamed answer with at most one choice.

    Raises:
        ValueError: if it is none.
    """
    held = _object(chunk, "a piece of it")
    _refuse_error(held)
    choices: Any = held.get("choices") or []
    if not isinstance(choices, list):
        raise ValueError(f"its choices are {_kind(choices)}")
    usage = _usage(chunk.get("usage"))
    if not choices:
        return {**held, "choices": [], "usage": usage}
    choice = _object(cast("list[Any]", choices)[0], "its choice")
    delta = _message(_object(choice.get("delta") or {}, "its delta"))
    if delta.get("role") != "assistant":
        delta.pop("role", None)
    return {**held, "choices": [{**choice, "delta": delta}], "usage": usage}


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    """Give a message, or a delta, whose content and calls are in form."""
    content = message.get("content")
    if isinstance(content, list):
        entries = cast("list[Any]", content)
        if not all(isinstance(entry, str | dict) for entry in entries):
            raise ValueError("its content is a list of something else than texts and objects")
    elif content is not None and not isinstance(content, str):
        raise ValueError(f"its content is {_kind(content)}")
    held = dict(message)
    if not content and isinstance(message.get("refusal"), str):
        held["content"] = message["refusal"]
    calls = message.get("tool_calls")
    held.pop("tool_calls", None)
    held.pop("function_call", None)
    if calls is None:
        return held
    if not isinstance(calls, list):
        raise ValueError(f"its tool_calls are {_kind(calls)}")
    return {**held, "tool_calls": [_call(entry) for entry in cast("list[Any]", calls)]}


def _call(call: Any) -> dict[str, Any]:
    held = _object(call, "a tool call")
    function = _object(held.get("function") or {}, "the function of a tool call")
    name, arguments, index = function.get("name"), function.get("arguments"), held.get("index")
    if name is not None and not isinstance(name, str):
        raise ValueError(f"the name of a tool call is {_kind(name)}")
    if arguments is not None and not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    id_ = held.get("id")
    return {
        "index": index if type(index) is int else None,
        "id": str(id_) if isinstance(id_, str | int) else None,
        "type": "function",
        "function": {"name": name or "", "arguments": arguments or ""},
    }


def _usage(usage: Any) -> dict[str, int] | None:
    """Give the counts that are counts."""
    if not isinstance(usage, dict):
        return None
    held = cast("dict[str, Any]", usage)
    return {name: held[name] for name in _COUNTS if type(held.get(name)) is int} or None


def _refuse_error(answer: Mapping[str, Any]) -> None:
    """Refuse what is an error, though its status says that all is well."""
    error = answer.get("error")
    if error:
        said: Any = cast("dict[str, Any]", error).get("message") if isinstance(error, dict) else error
        raise ValueError(f"it is an error: {str(said)[:_MAX_SAID_CHARS]}")


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what} is {_kind(value)}" + ("" if value is None else ", not an object"))
    return cast("dict[str, Any]", value)


def _kind(value: Any) -> str:
    for kind, name in ((str, "a text"), (bool, "true or false"), ((int, float), "a number"), (list, "a list")):
        if isinstance(value, kind):
            return name
    return "null or missing" if value is None else "an object"
