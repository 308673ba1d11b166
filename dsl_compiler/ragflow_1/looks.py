"""Conditions of ``rules/looks.toml``: what only looks different to clients. Each has the name of its rule."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragflow_lg.base.lenient_values import as_texts
from ragflow_lg.dsl.variable_references import find_references
from ragflow_lg.dsl_compiler.ragflow_1.engine import is_list_or_map
from ragflow_lg.dsl_compiler.ragflow_1.examined_canvas import Canvas, Hit

_TEXT_OUTPUTS = frozenset(
    ["LLM", "Agent", "Message", "StringTransform", "CodeExec", "Browser", "Invoke", "Generate", "ListOperations"]
)
"""Components with an output named content, result or answer."""

_BLANK = re.compile(r"[ \t\n]\{[\w:\-]+(?:@[\w.\-]+|\.[\w.]+)\}|\{[\w:\-]+(?:@[\w.\-]+|\.[\w.]+)\}[ \t\n]")


def result_picked_by_chance(canvas: Canvas) -> Iterator[Hit]:
    texts = [node for node in canvas.nodes.values() if node.component in _TEXT_OUTPUTS]
    messages = [node for node in texts if node.component == "Message"]
    if len(texts) > 2 or len(messages) > 1:
        yield Hit(("components",), f"{len(texts)} nodes with a text")


def message_blanks(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.of("Message"):
        if any(_BLANK.search(text) for text in as_texts(node.params.values.get("content"))):
            yield node.params.hit("content")


def json_text(canvas: Canvas) -> Iterator[Hit]:
    for node in canvas.of("Message"):
        for text in as_texts(node.params.values.get("content")):
            for found in find_references(text):
                if is_list_or_map(canvas, found.reference):
                    yield node.params.hit("content", found.reference.text)


def history_text(canvas: Canvas) -> Iterator[Hit]:
    for params, path, reference in canvas.references():
        if reference.text == "sys.history" and params.component == "Message":
            yield Hit(path, "", (), params.node)
