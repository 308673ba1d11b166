"""Limits the size of a canvas, because checking and compiling take time and memory in proportion to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ragflow_lg.base.values import MAPS
from ragflow_lg.dsl_compiler.diagnostics import Reporter
from ragflow_lg.dsl_compiler.draft import Draft

_HINT = "Split the canvas into several ones that run each other."


def limit_size(draft: Draft, reporter: Reporter) -> Draft:
    """Report the first limit that the canvas exceeds."""
    limits = draft.deployment.limits
    size = _Size()
    for component in draft.components.values():
        size.measure(component.params, limits.canvas_entries)
    for actual, limit, noun in (
        (len(draft.components), limits.canvas_components, "components"),
        (size.longest, limits.canvas_list, "entries in one list of its parameters"),
        (size.entries, limits.canvas_entries, "entries in its parameters"),
        (size.chars, limits.canvas_chars, "characters in the texts of its parameters"),
        (size.braces, limits.canvas_references, "references and braces in its parameters"),
    ):
        if actual > limit:
            message = f"The canvas has {actual:,} {noun}; the limit is {limit:,}."
            reporter.report("document-too-large", "error", draft.base, message, _HINT)
            break
    return draft


class _Size:
    """The size of the parameters of components."""

    def __init__(self) -> None:
        self.entries = 0
        self.chars = 0
        self.braces = 0
        self.longest = 0

    def measure(self, value: Any, max_entries: int) -> None:
        """Add the size of a value. Stop when there are more entries than allowed."""
        pending = [value]
        while pending and self.entries <= max_entries:
            current = pending.pop()
            if isinstance(current, str):
                self.chars += len(current)
                self.braces += current.count("{")
            elif isinstance(current, MAPS):
                entries = cast("Mapping[str, Any]", current)
                self.entries += len(entries)
                pending.extend(entries.values())
            elif isinstance(current, list):
                items = cast("list[Any]", current)
                self.entries += len(items)
                self.longest = max(self.longest, len(items))
                pending.extend(items)
