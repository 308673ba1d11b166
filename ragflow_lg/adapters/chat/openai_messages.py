"""Messages, tools and tool calls in OpenAI's format: those of a request, and those in an answer.

Harmless deviations of an answer are repaired: numbers as ids, objects as arguments, invalid token counts. Any other one
raises a `ValueError` that names the part of the answer and the JSON type found there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from msgspec import Struct

from ragflow_lg.base.lenient_values import as_list, as_map, as_text
from ragflow_lg.services.chat import ChatRequest, ToolCall, ToolSchema

CALLS = "calls"
"""``additional_kwargs`` key for the calls in a complete answer as sent by the server, each ``{id, name, args}``."""

_REASONING_NAMES = ("reasoning_content", "reasoning", "thinking")
_REASONING_BLOCKS = ("thinking", "reasoning")
_REASONING_FIELDS = ("thinking", "reasoning", "text", "summary", "content")
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
    choice = {**choice, **_refusal(message), "message": message}
    return {**body, "choices": [choice], "usage": _usage(body.get("usage"))}, calls


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
    return {**body, "choices": [{**choice, **_refusal(delta), "delta": delta}], "usage": usage}


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


def _refusal(message: Mapping[str, Any]) -> dict[str, str]:
    """Return the finish reason of a message that is a refusal, which OpenAI ends with ``stop``."""
    return {"finish_reason": "refusal"} if isinstance(message.get("refusal"), str) and message["refusal"] else {}


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


def read_reasoning(message: Mapping[str, Any]) -> str:
    """Return the reasoning text of a message or delta, in any of the forms in which servers send it.

    >>> read_reasoning({"reasoning": "hm"}), read_reasoning({"content": [{"type": "thinking", "thinking": "hm"}]})
    ('hm', 'hm')
    >>> read_reasoning({"content": [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}]})
    'hm'
    """
    for name in _REASONING_NAMES:
        if text := _reasoning_text(message.get(name)):
            return text
    blocks = as_list(message.get("content"))
    return "".join(_reasoning_text(block) for block in blocks if as_map(block).get("type") in _REASONING_BLOCKS)


def _reasoning_text(value: Any) -> str:
    """Return the text of a reasoning field or block, which may hold a list of texts: ``[{"text": …}]``."""
    fields = as_map(value)
    found = next((fields[name] for name in _REASONING_FIELDS if fields.get(name)), value)
    return as_text(found) or "".join(as_text(as_map(part).get("text")) for part in as_list(found))


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


MAX_CALLS = 512
"""Maximum number of tool calls in one streamed answer."""
_MAX_NAME_CHARS = 64
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")
_UNNAMED = "unnamed"
"""Name given to a call without one; endpoints reject a conversation with a blank name."""


class _CallPiece(Struct):
    id: str = ""
    name: list[str] = []
    arguments: list[str] = []


class CallPieces:
    """Merges the parts of streamed tool calls. Servers that send whole calls may omit the index."""

    def __init__(self) -> None:
        self._calls: list[_CallPiece] = []
        self._latest: dict[Any, _CallPiece] = {}
        """The last call of each index. One chunk may hold a hundred thousand parts, so none is searched for."""

    def add(self, pieces: Sequence[Mapping[str, Any]]) -> bool:
        """Add the parts of a chunk. Return ``False``, and read no further, at more than `MAX_CALLS` calls."""
        for piece in pieces:
            index = piece.get("index")
            call = self._latest.get(index)
            if call is None or (piece.get("id") and call.id and piece["id"] != call.id):
                if len(self._calls) == MAX_CALLS:
                    return False
                call = _CallPiece()
                self._calls.append(call)
                if index is not None:
                    self._latest[index] = call
            call.id = call.id or piece.get("id") or ""
            call.name.append(piece.get("name") or "")
            call.arguments.append(piece.get("args") or "")
        return True

    def merge(self) -> tuple[ToolCall, ...]:
        """Return the whole calls."""
        return _complete_calls([ToolCall(call.id, "".join(call.name), "".join(call.arguments)) for call in self._calls])


def call_pieces(chunk: Any) -> Sequence[Mapping[str, Any]]:
    """Return the parts of tool calls in a chunk; the chunk is a whole message if the client does not stream."""
    pieces: Sequence[Mapping[str, Any]] | None = getattr(chunk, "tool_call_chunks", None)
    if pieces is not None:
        return pieces
    return [{"id": call.id, "name": call.name, "args": call.arguments} for call in read_calls(chunk)]


def read_calls(answer: Any) -> tuple[ToolCall, ...]:
    """Return the calls in a whole answer, including those whose arguments are not valid JSON."""
    raw: list[dict[str, str]] | None = answer.additional_kwargs.get(CALLS)
    if raw is not None:
        return _complete_calls([ToolCall(c["id"] or "", c["name"], c["args"]) for c in raw])
    parsed = [ToolCall(c["id"] or "", c["name"], json.dumps(c["args"], ensure_ascii=False)) for c in answer.tool_calls]
    invalid = [ToolCall(c["id"] or "", c["name"] or "", c["args"] or "") for c in answer.invalid_tool_calls]
    return _complete_calls([*parsed, *invalid])


def _complete_calls(calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    """Return calls that each have an id, a name (the result tells the model that `_UNNAMED` is wrong) and arguments."""
    return tuple(
        ToolCall(call.id or f"call_{number}", call.name.strip() or _UNNAMED, call.arguments.strip() or "{}")
        for number, call in enumerate(calls, 1)
        if call.name.strip() or call.arguments.strip()
    )


def tool_definition(tool: ToolSchema) -> dict[str, Any]:
    """Return a tool in OpenAI's format, which LangChain accepts too."""
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": function}


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message in OpenAI's format."""
    calls: Sequence[Mapping[str, str]] = message.get("tool_calls") or ()
    if not calls:
        return dict(message)
    tool_calls = [
        {"id": c["id"], "type": "function", "function": {"name": _name(c["name"]), "arguments": c["arguments"] or "{}"}}
        for c in calls
    ]
    return {"role": "assistant", "content": message.get("content") or None, "tool_calls": tool_calls}


def _name(name: str) -> str:
    """Return a call name that endpoints accept: models invent names with other characters."""
    return _FOREIGN.sub("_", name)[:_MAX_NAME_CHARS] or _UNNAMED


def write_messages(request: ChatRequest) -> list[dict[str, Any]]:
    """Return the messages of a request, with its images in the last question."""
    messages = [_message(message) for message in request.messages]
    if request.images:
        question = next((m for m in reversed(messages) if m["role"] == "user"), None)
        if question is not None:
            images = [{"type": "image_url", "image_url": {"url": image}} for image in request.images]
            question["content"] = [{"type": "text", "text": question["content"]}, *images]
    return [{"role": "system", "content": request.system}, *messages] if request.system else messages
