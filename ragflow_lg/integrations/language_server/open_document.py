"""A document that is open in the editor: its newest text, and what the last check found out."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from ragflow_lg.base.diagnostics import Diagnostic
from ragflow_lg.dsl.variable_references import find_references
from ragflow_lg.dsl_compiler import CheckedCanvas
from ragflow_lg.dsl_compiler.draft import Draft
from ragflow_lg.dsl_compiler.json_spans import Span
from ragflow_lg.dsl_compiler.upgrade import is_old_canvas
from ragflow_lg.integrations.language_server.canvas_model import CanvasModel
from ragflow_lg.integrations.language_server.canvas_text import CanvasText, Place, read_string
from ragflow_lg.integrations.language_server.text_positions import TextPositions, Units
from ragflow_lg.server.assembly.canvas_files import NO_CANVAS, may_be_canvas

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


class TextVersion(Struct, frozen=True, dict=True):
    """One version of a document's text."""

    text: str
    number: int | None
    """The version in the editor, if it says one."""
    units: Units
    path: Path | None
    """The file, if it is one."""

    @cached_property
    def canvas(self) -> CanvasText:
        """The text as a canvas."""
        return CanvasText(self.text)

    @cached_property
    def positions(self) -> TextPositions:
        """The positions in the text."""
        return TextPositions(self.text, self.units)

    @cached_property
    def is_canvas(self) -> bool:
        """Whether the text may be a canvas. Other JSON files get no diagnostics."""
        return may_be_canvas(self.text) and (self.path is None or self.path.name != NO_CANVAS)


class CheckResult(Struct, frozen=True):
    """What a check found out about one version."""

    version: TextVersion
    findings: tuple[Finding, ...]
    model: CanvasModel | None
    """None if the version cannot be read as a canvas of today."""
    base: tuple[str, ...] = ()
    """The path to the canvas in the file."""


class OpenDocument(Struct):
    """A document in the editor."""

    version: TextVersion
    result: CheckResult | None = None
    """Of the last check."""
    readable: CheckResult | None = None
    """Of the last check of a text that could be read; the newest text may be in the middle of a change."""


def judge(version: TextVersion, checked: CheckedCanvas) -> CheckResult:
    """Return the result of a check, with the places of its diagnostics."""
    canvas = version.canvas
    findings = place_findings(canvas, checked.diagnostics)
    draft = checked.draft
    if draft is None or canvas.spans is None or not _is_todays(draft, checked.diagnostics):
        return CheckResult(version, findings, None)
    return CheckResult(version, findings, CanvasModel(draft), canvas.base)


def _is_todays(draft: Draft, diagnostics: tuple[Diagnostic, ...]) -> bool:
    """Return whether the draft has the components of the text, not those of an upgrade."""
    is_upgraded = any(d.code == "legacy-component" for d in diagnostics)
    return bool(draft.components) and not is_upgraded and not is_old_canvas(draft.document, draft.catalog)
