"""Bring components written in an older or simplified shape into today's form."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from msgspec.structs import replace

from ragflow_lg.dsl_compiler.diagnostics import Reporter
from ragflow_lg.dsl_compiler.draft import Draft, RawComponent
from ragflow_lg.dsl_compiler.old_keys import with_new_keys
from ragflow_lg.dsl_compiler.shapes import gives_items

__all__ = ["rewrite_shapes"]

_BLANK: tuple[Any, ...] = (None, "", [], {})
"""Values that nobody misses when they are left out."""


def rewrite_shapes(draft: Draft, reporter: Reporter) -> Draft:
    """Let each component's spec rewrite its own params, then what needs the whole document.

    That is the named item of a simplified Iteration (``item_var``): inside its body, and inside the
    Loops in there, ``{name}`` means ``{item}``.
    """
    components = {id_: _rewritten(draft, component, reporter) for id_, component in draft.components.items()}
    named = {
        id_: _name_pattern(id_, name)
        for id_, component in components.items()
        if isinstance(name := component.params.get("item_var"), str) and name.isidentifier()
    }
    if named:
        for id_, component in components.items():
            pattern = named.get(_giver(draft, components, component))
            if pattern is not None:
                components[id_] = replace(component, params=_replaced(component.params, pattern))
    return replace(draft, components=components)


def _giver(draft: Draft, components: Mapping[str, RawComponent], component: RawComponent) -> str:
    """Give the nearest region around a component that gives out items, or ``""``."""
    parent, seen = component.parent, set[str]()
    while parent and parent in components and parent not in seen:
        seen.add(parent)
        spec = draft.catalog.get(components[parent].name)
        if spec is not None and gives_items(spec):
            return parent
        parent = components[parent].parent
    return ""


def _rewritten(draft: Draft, component: RawComponent, reporter: Reporter) -> RawComponent:
    spec = draft.catalog.get(component.name)
    if spec is None:
        return component
    params = with_new_keys(component.params, spec)
    params = spec.rewrite(params) if spec.rewrite else params
    if params == component.params:
        return component
    gone = sorted(key for key in component.params.keys() - params.keys() if component.params[key] not in _BLANK)
    came = sorted(key for key in params if params[key] != component.params.get(key))
    if gone or came:
        reporter.report(
            "document-rewritten",
            "info",
            component.params_pointer,
            f"{spec.name} is written in another shape: {_told(gone, came)}.",
            component=component,
        )
    return replace(component, params=params)


def _told(gone: Sequence[str], came: Sequence[str]) -> str:
    if gone and came:
        return f"{', '.join(gone)} was read as {', '.join(came)}"
    return f"{', '.join(came)} was normalised" if came else f"{', '.join(gone)} was left out"


def _name_pattern(owner: str, name: str) -> re.Pattern[str]:
    # Bounded counts, as in `ragflow_lg.dsl.variable_references`: a hostile text of braces costs linear time.
    either = re.escape(f"{owner}@{name}") + "|" + re.escape(name)
    return re.compile(r"((?:\{\s{0,8}){1,8})(?:" + either + r")((?:\s{0,8}\}){1,8})")


def _replaced(value: Any, pattern: re.Pattern[str]) -> Any:
    if isinstance(value, str):
        return pattern.sub(r"\1item\2", value)
    if isinstance(value, Mapping):
        return {key: _replaced(entry, pattern) for key, entry in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list):
        return [_replaced(entry, pattern) for entry in cast("list[Any]", value)]
    return value
