"""The catalog: every component there is, built in or installed.

Built-in ones are the modules of `ragflow_lg.components`. Others come from installed distributions that name a
`ComponentSpec` under the entry point group ``ragflow_lg.components``. An error while loading is
never swallowed: a component that is missing silently is worse than a loud start.
"""

from __future__ import annotations

import importlib
import pkgutil
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any, cast

import ragflow_lg.components
from ragflow_lg.errors import SettingsError
from ragflow_lg.registry import Registry
from ragflow_lg.spec import ComponentSpec

__all__ = ["ENTRY_POINT_GROUP", "load_catalog"]

ENTRY_POINT_GROUP = "ragflow_lg.components"


def load_catalog() -> Registry:
    """Make a registry of all built-in and installed components."""
    registry = Registry()
    for module in pkgutil.iter_modules(ragflow_lg.components.__path__):
        for spec in specs_of(importlib.import_module(f"{ragflow_lg.components.__name__}.{module.name}")):
            registry.add(spec)
    for entry_point in entry_points(group=ENTRY_POINT_GROUP):
        spec: Any = entry_point.load()
        if not isinstance(spec, ComponentSpec):
            raise SettingsError(
                f"The entry point {entry_point.value!r} of group {ENTRY_POINT_GROUP!r} is not a component; "
                "point it at a function decorated with @component."
            )
        registry.add(cast("ComponentSpec[Any]", spec))
    return registry


def specs_of(module: ModuleType) -> list[ComponentSpec[Any]]:
    """Give the specs that a module defines."""
    return [value for value in vars(module).values() if isinstance(value, ComponentSpec)]
