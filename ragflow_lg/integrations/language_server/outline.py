"""The outline of a canvas: its nodes by title, those in the body of a Loop or Iteration below it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ragflow_lg.integrations.language_server.canvas_text import CanvasText, ComponentEntry, Place

MAX_LEVELS = 20
"""Deeper bodies are listed on the last level."""


class OutlineEntry(NamedTuple):
    """A node in the outline."""

    title: str
    detail: str
    """Its component and id."""
    component: str
    place: Place
    key: Place
    children: Sequence[OutlineEntry]


def build_outline(canvas: CanvasText) -> Sequence[OutlineEntry]:
    """Return the nodes in the order of the text."""
    children: dict[str, list[ComponentEntry]] = {}
    for entry in canvas.components.values():
        parent = entry.parent if entry.parent in canvas.components and entry.parent != entry.id else ""
        children.setdefault(parent, []).append(entry)
    seen: set[str] = set()

    def build(parent: str, level: int) -> list[OutlineEntry]:
        entries: list[OutlineEntry] = []
        for entry in children.get(parent, ()):
            if entry.id not in seen:
                seen.add(entry.id)
                entries.append(_describe(canvas, entry, build(entry.id, level + 1) if level < MAX_LEVELS else ()))
        return entries

    top = build("", 0)
    left = [entry for entry in canvas.components.values() if entry.id not in seen]  # bodies that contain each other
    return [*top, *(_describe(canvas, entry, ()) for entry in left)]


def _describe(canvas: CanvasText, entry: ComponentEntry, children: Sequence[OutlineEntry]) -> OutlineEntry:
    title = canvas.titles.get(entry.id) or entry.id
    detail = " · ".join(text for text in (entry.name, entry.id if title != entry.id else "") if text)
    place = Place(entry.span.entry_start, entry.span.end)
    return OutlineEntry(title.strip() or "?", detail, entry.name, place, entry.key, children)
