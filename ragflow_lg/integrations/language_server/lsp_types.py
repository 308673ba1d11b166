"""What the language server sends, in the types of the protocol."""

from __future__ import annotations

from collections.abc import Iterable

from lsprotocol import types

from ragflow_lg.base.diagnostics import Diagnostic
from ragflow_lg.dsl_compiler.json_spans import TextEdit
from ragflow_lg.integrations.language_server.canvas_text import Place
from ragflow_lg.integrations.language_server.hover import Hover, code, escape
from ragflow_lg.integrations.language_server.name_completion import CompletionEntry
from ragflow_lg.integrations.language_server.open_document import Finding
from ragflow_lg.integrations.language_server.text_positions import TextPositions

SOURCE = "ragflow-lg"

_SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "info": types.DiagnosticSeverity.Information,
}


def to_range(positions: TextPositions, place: Place) -> types.Range:
    """Convert a place."""
    return types.Range(types.Position(*positions.position(place.start)), types.Position(*positions.position(place.end)))


def to_diagnostic(positions: TextPositions, finding: Finding) -> types.Diagnostic:
    """Convert a finding. What a fix would remove is shown as unnecessary."""
    diagnostic = finding.diagnostic
    is_removable = diagnostic.fix is not None and diagnostic.fix.action == "remove"
    return types.Diagnostic(
        to_range(positions, finding.place),
        message=_message(diagnostic),
        severity=_SEVERITIES[diagnostic.severity],
        code=diagnostic.code,
        source=SOURCE,
        tags=[types.DiagnosticTag.Unnecessary] if is_removable else None,
    )


def _message(diagnostic: Diagnostic) -> str:
    text = f"{diagnostic.message}\n{diagnostic.hint}" if diagnostic.hint else diagnostic.message
    return text.encode("utf-8", "replace").decode()


def to_hover(positions: TextPositions, hover: Hover) -> types.Hover:
    """Convert a hover text."""
    content = types.MarkupContent(types.MarkupKind.Markdown, hover.markdown)
    return types.Hover(content, to_range(positions, hover.place))


def to_edits(positions: TextPositions, edits: Iterable[TextEdit]) -> list[types.TextEdit]:
    """Convert edits."""
    return [types.TextEdit(to_range(positions, Place(edit.start, edit.end)), edit.text) for edit in edits]


def to_completion(positions: TextPositions, number: int, entry: CompletionEntry) -> types.CompletionItem:
    """Convert a proposal; ``number`` is its place in the list."""
    about = f"**{escape(entry.title)}** · {code(entry.label)}" if entry.title else ""
    return types.CompletionItem(
        entry.label,
        label_details=types.CompletionItemLabelDetails(description=entry.title or None),
        kind=types.CompletionItemKind.Module if entry.is_component else types.CompletionItemKind.Variable,
        detail=entry.detail or None,
        documentation=types.MarkupContent(types.MarkupKind.Markdown, about) if about else None,
        sort_text=f"{number:05}",
        filter_text=entry.label,
        text_edit=types.TextEdit(to_range(positions, entry.place), entry.new_text),
    )
