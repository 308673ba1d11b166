"""The outline of a canvas: its nodes by title, those in the body of a Loop or Iteration below it."""

from __future__ import annotations

from collections.abc import Sequence

from lsprotocol import types

from ragflow_lg.integrations.language_server.canvas_text import CanvasText, ComponentEntry, Place
from ragflow_lg.integrations.language_server.lsp_types import to_range
from ragflow_lg.integrations.language_server.text_positions import TextPositions

MAX_LEVELS = 20
"""Deeper bodies are listed on the last level."""

_SYMBOLS = {
    "begin": types.SymbolKind.Event,
    "switch": types.SymbolKind.Enum,
    "categorize": types.SymbolKind.Enum,
    "loop": types.SymbolKind.Namespace,
    "iteration": types.SymbolKind.Namespace,
    "message": types.SymbolKind.String,
}


def build_outline(canvas: CanvasText, positions: TextPositions) -> list[types.DocumentSymbol]:
    """Return the nodes in the order of the text."""
    children: dict[str, list[ComponentEntry]] = {}
    for entry in canvas.components.values():
        parent = entry.parent if entry.parent in canvas.components and entry.parent != entry.id else ""
        children.setdefault(parent, []).append(entry)
    seen: set[str] = set()

    def describe(entry: ComponentEntry, inside: Sequence[types.DocumentSymbol]) -> types.DocumentSymbol:
        title = canvas.titles.get(entry.id) or entry.id
        return types.DocumentSymbol(
            title.strip() or "?",
            _SYMBOLS.get(entry.name.lower(), types.SymbolKind.Function),
            to_range(positions, Place(entry.span.entry_start, entry.span.end)),
            to_range(positions, entry.key),
            detail=" · ".join(text for text in (entry.name, entry.id if title != entry.id else "") if text),
            children=inside,
        )

    def build(parent: str, level: int) -> list[types.DocumentSymbol]:
        symbols: list[types.DocumentSymbol] = []
        for entry in children.get(parent, ()):
            if entry.id not in seen:
                seen.add(entry.id)
                symbols.append(describe(entry, build(entry.id, level + 1) if level < MAX_LEVELS else ()))
        return symbols

    top = build("", 0)
    left = [entry for entry in canvas.components.values() if entry.id not in seen]  # bodies that contain each other
    return [*top, *(describe(entry, ()) for entry in left)]
