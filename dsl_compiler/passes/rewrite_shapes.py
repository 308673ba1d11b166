"""Bring components written in an older or simplified shape into today's form."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from dsl_compiler.diagnostics import Reporter
from dsl_compiler.draft import Draft, RawComponent

__all__ = ["rewrite_shapes"]


def rewrite_shapes(draft: Draft, reporter: Reporter) -> Draft:
    """Let each component's spec rewrite its own params, then what needs the whole document.

    That is the named item of a simplified Iteration (``item_var``): inside its body ``{name}`` means
    ``{item}``.
    """
    components = {id_: _rewritten(draft, component, reporter) for id_, component in draft.components.items()}
    for component in draft.components.values():
        name = component.params.get("item_var")
        if isinstance(name, str) and name.isidentifier():
            components = {id_: _named_item(c, component.id, name) for id_, c in components.items()}
    return replace(draft, components=components)


def _rewritten(draft: Draft, component: RawComponent, reporter: Reporter) -> RawComponent:
    spec = draft.catalog.get(component.name)
    if spec is None or spec.rewrite is None:
        return component
    params = spec.rewrite(component.params)
    if params == component.params:
        return component
    gone = sorted(component.params.keys() - params.keys())
    came = sorted(key for key in params if params[key] != component.params.get(key))
    reporter.report(
        "document-rewritten",
        "info",
        component.params_pointer,
        f"{spec.name} is written in another shape: "
        + (f"{', '.join(gone)} was read as {', '.join(came)}." if gone else f"{', '.join(came)} was normalised."),
        component=component,
    )
    return replace(component, params=params)


def _named_item(component: RawComponent, owner: str, name: str) -> RawComponent:
    pattern = re.compile(r"(\{+\s*)(?:" + re.escape(f"{owner}@{name}") + "|" + re.escape(name) + r")(\s*\}+)")
    if component.parent != owner:
        return component
    return replace(component, params=_replaced(component.params, pattern))


def _replaced(value: Any, pattern: re.Pattern[str]) -> Any:
    if isinstance(value, str):
        return pattern.sub(r"\1item\2", value)
    if isinstance(value, Mapping):
        return {key: _replaced(entry, pattern) for key, entry in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list):
        return [_replaced(entry, pattern) for entry in cast("list[Any]", value)]
    return value
