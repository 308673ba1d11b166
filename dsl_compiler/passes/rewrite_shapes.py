"""Rewrite components with an older or simplified shape into their current form."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from ragflow_lg.base.lenient_values import map_texts
from ragflow_lg.dsl_compiler.diagnostics import Reporter
from ragflow_lg.dsl_compiler.draft import Draft, RawComponent, enclosing
from ragflow_lg.dsl_compiler.placeholder import rename_old_keys

_BLANK: tuple[Any, ...] = (None, "", [], {})
"""Values whose removal is not reported."""


def rewrite_shapes(draft: Draft, reporter: Reporter) -> Draft:
    """Rewrite each component's params according to its spec, then the named items of Iterations.

    A simplified Iteration may give its item a name (``item_var``). In its body, and in Loops inside the body,
    ``{name}`` then means ``{item}``.
    """
    components = {id_: _rewrite(draft, component, reporter) for id_, component in draft.components.items()}
    patterns = {
        id_: _name_pattern(id_, name)
        for id_, component in components.items()
        if isinstance(name := component.params.get("item_var"), str) and name.isidentifier()
    }
    if patterns:
        for id_, component in components.items():
            pattern = patterns.get(_nearest_iteration(draft, components, component))
            if pattern is not None:
                components[id_] = replace(
                    component, params=map_texts(component.params, partial(pattern.sub, r"\1item\2"))
                )
    return replace(draft, components=components)


def _nearest_iteration(draft: Draft, components: dict[str, RawComponent], component: RawComponent) -> str:
    """Return the nearest region around a component that yields items, or ``""``."""
    around = ((region, draft.catalog.get(region.name)) for region in enclosing(component, components))
    return next((region.id for region, spec in around if spec is not None and spec.yields_items), "")


def _rewrite(draft: Draft, component: RawComponent, reporter: Reporter) -> RawComponent:
    spec = draft.catalog.get(component.name)
    if spec is None:
        return component
    params = rename_old_keys(component.params, spec)
    params = spec.rewrite(params) if spec.rewrite else params
    if params == component.params:
        return component
    removed = sorted(key for key in component.params.keys() - params.keys() if component.params[key] not in _BLANK)
    added = sorted(key for key in params if params[key] != component.params.get(key))
    if removed or added:
        message = f"{spec.name} has a different shape: {_describe_changes(removed, added)}."
        reporter.report("document-rewritten", "info", component.param_place(), message)
    return replace(component, params=params)


def _describe_changes(removed: Sequence[str], added: Sequence[str]) -> str:
    if removed and added:
        return f"{', '.join(removed)} was read as {', '.join(added)}"
    return f"{', '.join(added)} was normalized" if added else f"{', '.join(removed)} was omitted"


def _name_pattern(owner: str, name: str) -> re.Pattern[str]:
    # Bounded counts, as in `ragflow_lg.dsl.variable_references`, keep malicious input full of braces at linear time.
    either = re.escape(f"{owner}@{name}") + "|" + re.escape(name)
    return re.compile(r"((?:\{\s{0,8}){1,8})(?:" + either + r")((?:\s{0,8}\}){1,8})")
