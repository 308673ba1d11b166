"""Report titles shared by several nodes."""

from __future__ import annotations

from ragflow_lg.dsl_compiler.diagnostics import Reporter
from ragflow_lg.dsl_compiler.draft import Draft


def check_titles(draft: Draft, reporter: Reporter) -> Draft:
    """Report every further node with the same title, since events and drawings would not distinguish the nodes."""
    first_by_title: dict[str, str] = {}
    for component in draft.components.values():
        if not component.title:
            continue
        first = first_by_title.setdefault(component.title, component.id)
        if first != component.id:
            reporter.report(
                "title-duplicate",
                "warning",
                component.pointer,
                f"{first!r} has the same title, {component.title!r}.",
                hint="Rename one of them in the editor.",
                component=component,
            )
    return draft
