"""Tell of titles that more than one node bears."""

from __future__ import annotations

from ragflow_lg.dsl_compiler.diagnostics import Reporter
from ragflow_lg.dsl_compiler.draft import Draft

__all__ = ["check_titles"]


def check_titles(draft: Draft, reporter: Reporter) -> Draft:
    """Report every second node of a title: events and drawings could not tell them apart."""
    seen: dict[str, str] = {}
    for component in draft.components.values():
        if not component.title:
            continue
        first = seen.setdefault(component.title, component.id)
        if first != component.id:
            reporter.report(
                "title-duplicate",
                "warning",
                component.pointer,
                f"The title {component.title!r} is also that of {first!r}.",
                hint="Rename one of them in the editor.",
                component=component,
            )
    return draft
