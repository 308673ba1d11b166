"""A chat model for trying things out: no key, no network, the same answer every time.

It plays a script, and without a fitting line it echoes the question and says that it is a demo. Asked for a category,
it takes the one that shares most words with the last message; asked for a JSON object, it fills in the schema; shown
pieces of knowledge, it quotes the one that fits, and cites it.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from ragflow_lg.adapters.chat.demo_quotes import quoted_answer
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.models.classification import parse_categories
from ragflow_lg.models.structured_answer import extract_schema
from ragflow_lg.services.chat import ChatAnswer, ChatDelta, ChatRequest, Usage

__all__ = ["DemoChat", "ScriptLine", "read_script"]

_PIECE_CHARS = 12
_MAX_ECHO_CHARS = 500
_MAX_SCRIPT_BYTES = 1024 * 1024
_MAX_DEPTH = 8
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_]+")


class ScriptLine(Struct, frozen=True):
    """Where ``match`` occurs in the system prompt or the last message, ``reply`` is the answer; ``""`` always fits."""

    match: str
    reply: str


def read_script(path: Path) -> tuple[ScriptLine, ...]:
    """Read a script: a JSON list of ``{"match": text, "reply": text}``, of which the first that fits counts.

    Raises:
        SettingsError: if the file cannot be read or is something else.
    """
    try:
        if path.stat().st_size > _MAX_SCRIPT_BYTES:
            raise SettingsError(f"The demo script {str(path)!r} is larger than {_MAX_SCRIPT_BYTES:,} bytes.")
        lines = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"The demo script {str(path)!r} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"The demo script {str(path)!r} is not JSON: {error}.") from None
    if not isinstance(lines, list) or not all(_is_line(line) for line in cast("list[Any]", lines)):
        raise SettingsError(
            f'The demo script {str(path)!r} should be a list of {{"match": "…", "reply": "…"}}, both of them texts.'
        )
    return tuple(ScriptLine(line.get("match", ""), line["reply"]) for line in cast("list[dict[str, str]]", lines))


def _is_line(line: Any) -> bool:
    if not isinstance(line, dict):
        return False
    held = cast("dict[str, Any]", line)
    return isinstance(held.get("reply"), str) and isinstance(held.get("match", ""), str)


class DemoChat:
    """A `ragflow_lg.services.services.ChatModel` without a model."""

    name = "demo"
    context_tokens = 128_000
    has_vision = True
    has_tools = True
    has_schemas = False

    def __init__(self, script: Sequence[ScriptLine] = ()) -> None:
        self._script = script

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """Give the answer."""
        return ChatAnswer(self._answer(request), usage=Usage(calls=1))

    def _answer(self, request: ChatRequest) -> str:
        asked = next((m["content"] for m in reversed(request.messages) if m["role"] == "user"), "")
        haystack = f"{request.system}\n{asked}"
        if line := next((line for line in self._script if line.match in haystack), None):
            return line.reply
        if parse_categories(request.system):
            return _category(request.system, asked)
        if (schema := extract_schema(request.system)) is not None:
            return json.dumps(_example(schema, "answer", 0), ensure_ascii=False)
        if quote := quoted_answer(asked, request.system, asked):
            return quote
        images = f" ({len(request.images)} image(s) attached)" if request.images else ""
        said = asked if len(asked) <= _MAX_ECHO_CHARS else asked[: _MAX_ECHO_CHARS - 1] + "…"
        return f"This is the demo model, not a real one. You said: {said}{images}"

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        """Give the answer in pieces of a few characters."""
        answer = self._answer(request)
        for at in range(0, len(answer), _PIECE_CHARS):
            yield ChatDelta(answer[at : at + _PIECE_CHARS])
        yield ChatDelta("", usage=Usage(calls=1))


def _category(system: str, asked: str) -> str:
    """Give the category that shares most words with the question, else the last one."""
    question = _words(asked.rpartition("USER: ")[2])
    categories = parse_categories(system)
    shared = [len(question & _words(" ".join((c.name, c.description, *c.examples)))) for c in categories]
    return categories[shared.index(max(shared))].name if max(shared) else categories[-1].name


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


def _example(schema: Any, name: str, depth: int) -> Any:
    """Make a value for a schema."""
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return None
    held = cast("Mapping[str, Any]", schema)
    for key in ("const", "default"):
        if key in held:
            return held[key]
    for key in ("enum", "examples"):
        if isinstance(values := held.get(key), list) and values:
            return cast("list[Any]", values)[0]
    for key in ("anyOf", "oneOf", "allOf"):
        if isinstance(values := held.get(key), list) and values:
            return _example(cast("list[Any]", values)[0], name, depth + 1)
    return _of_type(held, name, depth)


def _of_type(schema: Mapping[str, Any], name: str, depth: int) -> Any:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((k for k in cast("list[Any]", kind) if k != "null"), "null")
    properties = schema.get("properties")
    if kind == "object" or (kind is None and isinstance(properties, Mapping)):
        fields = cast("Mapping[str, Any]", properties if isinstance(properties, Mapping) else {})
        return {key: _example(field, key, depth + 1) for key, field in fields.items()}
    if kind == "array":
        return [_example(schema.get("items"), name, depth + 1)] if schema.get("minItems") else []
    if kind in ("number", "integer"):
        minimum = schema.get("minimum", 0)
        return minimum if isinstance(minimum, int | float) else 0
    return {"boolean": False, "null": None}.get(str(kind), f"demo {name}")
