"""Names that parameters had in older documents, whatever the component."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragflow_lg.component.spec import AnySpec

__all__ = ["OLD_KEYS", "with_new_keys"]

OLD_KEYS = {"llm_enabled_tools": "tools"}
"""Today's name by the old one."""


def with_new_keys(params: Mapping[str, Any], spec: AnySpec) -> Mapping[str, Any]:
    """Give params under today's names, as far as the component has these and was not given them."""
    fields = spec.params.model_fields
    found = {old: new for old, new in OLD_KEYS.items() if old in params and new in fields and not params.get(new)}
    if not found:
        return params
    rest = {key: value for key, value in params.items() if key not in found and key not in found.values()}
    return {**rest, **{new: params[old] for old, new in found.items()}}
