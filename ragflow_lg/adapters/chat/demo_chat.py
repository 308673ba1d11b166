"""A deterministic chat model that needs no key and no network.

In this order: if the prompt lists categories, it returns the one that shares the most words with the last message; if
the prompt contains a JSON schema, it returns an example object; if the prompt contains knowledge chunks, it quotes and
cites the best sentence; in a research, it asks the question itself as its only query; otherwise it echoes the question.
Quotes and echoes say that they come from a demo model.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping
from itertools import islice
from typing import Any, cast

from ragflow_lg.adapters.knowledge.words import extract_question_words, split_words
from ragflow_lg.models.classification import parse_categories
from ragflow_lg.models.prompt_texts import NOTHING_RELEVANT, PROMPTS
from ragflow_lg.models.structured_answer import extract_schema
from ragflow_lg.services.chat import ChatAnswer, ChatDelta, ChatRequest, Usage

_PIECE_CHARS = 12
_MAX_ECHO_CHARS = 500
_MAX_DEPTH = 8
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_]+")

_CHUNK = re.compile(r"^ID: (\d{1,9})\n((?:├── [^\n]*\n)*)└── Content:\n(.*?)(?=\n\n|\Z)", re.MULTILINE | re.DOTALL)
"""A chunk in a prompt, up to the first blank line: nothing marks where the last chunk ends and the prompt continues."""
_TITLE = re.compile(r"├── Title: (.*)")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n(?=[^\n]{1,40}: )")
_LINE = "\n"
_MAX_QUOTE_CHARS = 400
_MAX_CHUNKS = 50


class DemoChat:
    """A `ragflow_lg.services.chat.ChatModel` that uses no real model."""

    name = "demo"
    context_tokens = 128_000
    has_vision = True
    has_tools = True
    has_schemas = False

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """Return the whole answer."""
        return ChatAnswer(_answer(request), usage=Usage(calls=1))

    async def stream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        """Yield the answer in pieces of a few characters."""
        answer = _answer(request)
        for start in range(0, len(answer), _PIECE_CHARS):
            yield ChatDelta(answer[start : start + _PIECE_CHARS])
        yield ChatDelta("", usage=Usage(calls=1))


def quote_answer(question: str, *prompts: str) -> str:
    """Quote the sentence in the prompts' chunks that shares the most words with the question, with its chunk number.

    The first of equally good sentences wins, because the best chunk comes first. The chunks may follow the question in
    ``question`` itself. Return ``""`` if no prompt contains chunks.
    """
    keywords = set(extract_question_words(question.partition("\nID: ")[0]))
    best, most = "", -1
    chunks = [chunk for prompt in prompts for chunk in islice(_CHUNK.finditer(prompt), _MAX_CHUNKS)]
    for number, head, content in (chunk.groups() for chunk in chunks):
        title = _TITLE.search(head)
        source = f" ({title[1].strip()})" if title else ""
        chunk_score = len(keywords & set(split_words(content)))
        first, _, rest = content.partition("\n")
        for sentence in _SENTENCE.split(rest if " > " in first and rest else content):
            score = 2 * len(keywords & set(split_words(sentence))) + chunk_score
            if sentence.strip() and score > most:
                quote = " ".join(sentence.split())[:_MAX_QUOTE_CHARS].rstrip(" .。")
                best, most = f"“{quote}”{source} [ID:{number}].", score
    return f"This is the demo model, not a real one. It finds: {best}" if best else ""


def _answer(request: ChatRequest) -> str:
    question = next((m["content"] for m in reversed(request.messages) if m["role"] == "user"), "")
    if parse_categories(request.system):
        return _choose_category(request.system, question)
    if (schema := extract_schema(request.system)) is not None:
        return json.dumps(_example(schema, "answer", 0), ensure_ascii=False)
    if request.system.startswith(PROMPTS["research_step"].text):
        is_first = "\n[]\n" in question
        return (
            f"Reasoning: one search.\nSearch: {question.partition(_LINE)[2].partition(_LINE)[0]}"
            if is_first
            else "Done"
        )
    if request.system.startswith(PROMPTS["research_summary"].text):
        return quote_answer(request.system.rpartition(_LINE)[2], question) or NOTHING_RELEVANT
    if quote := quote_answer(question, request.system, question):
        return quote
    count = len(request.images)
    images = f" ({count} image{'' if count == 1 else 's'} attached)" if count else ""
    echo = question if len(question) <= _MAX_ECHO_CHARS else question[: _MAX_ECHO_CHARS - 1] + "…"
    return f"This is the demo model, not a real one. You said: {echo}{images}"


def _choose_category(system: str, conversation: str) -> str:
    """Return the category that shares the most words with the last user message, or the last one if none shares any."""
    question = _words(conversation.rpartition("USER: ")[2])
    categories = parse_categories(system)
    shared = [len(question & _words(" ".join((c.name, c.description, *c.examples)))) for c in categories]
    return categories[shared.index(max(shared))].name if max(shared) else categories[-1].name


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


def _example(schema: Any, name: str, depth: int) -> Any:
    """Return an example value for a schema; None for anything nested too deeply."""
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return None
    fields = cast("Mapping[str, Any]", schema)
    for key in ("const", "default"):
        if key in fields:
            return fields[key]
    for key in ("enum", "examples"):
        if isinstance(values := fields.get(key), list) and values:
            return cast("list[Any]", values)[0]
    for key in ("anyOf", "oneOf", "allOf"):
        if isinstance(values := fields.get(key), list) and values:
            return _example(cast("list[Any]", values)[0], name, depth + 1)
    return _example_of_type(fields, name, depth)


def _example_of_type(schema: Mapping[str, Any], name: str, depth: int) -> Any:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((k for k in cast("list[Any]", kind) if k != "null"), "null")
    properties = schema.get("properties")
    if kind == "object" or (kind is None and isinstance(properties, Mapping)):
        members = cast("Mapping[str, Any]", properties if isinstance(properties, Mapping) else {})
        return {key: _example(field, key, depth + 1) for key, field in members.items()}
    if kind == "array":
        return [_example(schema.get("items"), name, depth + 1)] if schema.get("minItems") else []
    if kind in ("number", "integer"):
        minimum = schema.get("minimum", 0)
        return minimum if isinstance(minimum, int | float) else 0
    return {"boolean": False, "null": None}.get(str(kind), f"demo {name}")
