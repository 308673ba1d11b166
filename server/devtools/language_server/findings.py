"""Diagnostics and where exactly they stand in a text."""

from __future__ import annotations

import re
from typing import NamedTuple

from ragflow_lg.base.diagnostics import Diagnostic
from ragflow_lg.dsl.variable_references import find_references
from ragflow_lg.dsl_compiler.json_spans import Span
from ragflow_lg.server.devtools.language_server.canvas_text import CanvasText, Place
from ragflow_lg.server.devtools.language_server.json_strings import read_string

MAX_FINDINGS = 1_000
"""Limit on how many diagnostics of a text are shown."""

_WORD = re.compile(r'"(?:[^"\\\r\n]|\\.)*"?|[\w.+-]+|\S')
_LINE_END = re.compile(r"\r\n?|\n")


class Finding(NamedTuple):
    """A diagnostic and its place."""

    diagnostic: Diagnostic
    place: Place


def place_findings(canvas: CanvasText, diagnostics: tuple[Diagnostic, ...]) -> tuple[Finding, ...]:
    """Return the diagnostics with their places: the value, the reference in a text, or the key of an object.

    Problems of the JSON text itself stand at the word where reading failed.
    """
    line_starts = [0, *(match.end() for match in _LINE_END.finditer(canvas.text))]
    return tuple(Finding(d, _find_place(canvas, d, line_starts)) for d in diagnostics[:MAX_FINDINGS])


def _find_place(canvas: CanvasText, diagnostic: Diagnostic, line_starts: list[int]) -> Place:
    spans = canvas.spans
    if spans is None or (not diagnostic.pointer and diagnostic.line):
        line = min(max(diagnostic.line, 1), len(line_starts))
        return _word_at(canvas.text, line_starts[line - 1] + max(diagnostic.column, 1) - 1)
    span, is_exact = spans.find_nearest(diagnostic.pointer)
    if span is None:
        return Place(0, 0)
    if not is_exact:
        return canvas.key_place(span)
    return _value_place(canvas, span, diagnostic)


def _word_at(text: str, offset: int) -> Place:
    match = _WORD.match(text, offset)
    if match is None:  # the end of the text or of a line: the last character before it
        return Place(max(min(offset, len(text)) - 1, 0), min(offset, len(text)))
    return Place(match.start(), match.end())


def _value_place(canvas: CanvasText, span: Span, diagnostic: Diagnostic) -> Place:
    is_superfluous = diagnostic.fix is not None and diagnostic.fix.action == "remove" and span.key_start >= 0
    if is_superfluous or canvas.text[span.start] in "{[":
        return canvas.key_place(span)
    if canvas.text[span.start] != '"':
        return Place(span.start, span.end)
    string = read_string(canvas.text, span.start + 1, span.end - 1)
    for reference, start, end in find_references(string.text):
        if repr(reference.text) in diagnostic.message:
            return Place(*string.place(start, end))
    return Place(span.start, span.end)
