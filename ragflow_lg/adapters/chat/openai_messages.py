"""Messages, tools and tool calls in OpenAI's format: those of a request, and those in an answer."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from ragflow_lg.adapters.chat.completion_answers import CALLS
from ragflow_lg.services.chat import ChatRequest, ToolCall, ToolSchema

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
