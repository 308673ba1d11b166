"""A document that is open in the editor: its newest text, and what the last check found out."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from msgspec import Struct

from ragflow_lg.base.diagnostics import Diagnostic
from ragflow_lg.dsl_compiler import CheckedCanvas
from ragflow_lg.dsl_compiler.draft import Draft
from ragflow_lg.dsl_compiler.upgrade import is_old_canvas
from ragflow_lg.server.assembly.canvas_files import NO_CANVAS, may_be_canvas
from ragflow_lg.server.devtools.language_server.canvas_model import CanvasModel
from ragflow_lg.server.devtools.language_server.canvas_text import CanvasText
from ragflow_lg.server.devtools.language_server.findings import Finding, place_findings
from ragflow_lg.server.devtools.language_server.text_positions import TextPositions, Units


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
    """None if the version cannot be read as a canvas of today in DSL v1."""
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
    if draft is None or canvas.spans is None or canvas.version == 2 or not _is_todays(draft, checked.diagnostics):
        return CheckResult(version, findings, None)
    return CheckResult(version, findings, CanvasModel(draft), canvas.base)


def _is_todays(draft: Draft, diagnostics: tuple[Diagnostic, ...]) -> bool:
    """Return whether the draft has the components of the text, not those of an upgrade."""
    is_upgraded = any(d.code == "legacy-component" for d in diagnostics)
    return bool(draft.components) and not is_upgraded and not is_old_canvas(draft.document, draft.catalog)
