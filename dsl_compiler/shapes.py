"""Reading loosely typed JSON: give the value if it has the wanted type, else an empty one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ragflow_lg.component.spec import AnySpec

__all__ = ["as_list", "as_map", "as_text", "as_texts", "gives_items"]


def as_map(value: Any) -> Mapping[str, Any]:
    """Give a map, or an empty one."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def as_list(value: Any) -> list[Any]:
    """Give a list, or an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """Give a text, or an empty one."""
    return value if isinstance(value, str) else ""


def as_texts(value: Any) -> tuple[str, ...]:
    """Give the texts in a list, or the one text, each once."""
    if isinstance(value, str):
        return (value,) if value else ()
    return tuple(dict.fromkeys(entry for entry in as_list(value) if isinstance(entry, str) and entry))


def gives_items(spec: AnySpec) -> bool:
    """Tell whether a component is a region that gives each round an item of a list."""
    return spec.kind == "region" and "items_ref" in spec.params.model_fields
