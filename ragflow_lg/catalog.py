"""The catalog: every component there is, built in or installed.

Built-in ones are the modules of `ragflow_lg.components` and `ragflow_lg.tools`, named after their component in snake
case. Others come from installed distributions that name a `ComponentSpec` under the entry point group
``ragflow_lg.components``, or a plain function under ``ragflow_lg.tools``.
Each is imported when it is first asked for. An error while loading is never swallowed: a component
that is missing silently is worse than a loud failure.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import ragflow_lg.components
import ragflow_lg.tools
from ragflow_lg.entry_points import load_entry_point
from ragflow_lg.errors import SettingsError
from ragflow_lg.registry import Registry
from ragflow_lg.spec import ComponentSpec

__all__ = ["ENTRY_POINT_GROUP", "FUNCTION_GROUP", "load_catalog"]

ENTRY_POINT_GROUP = "ragflow_lg.components"
FUNCTION_GROUP = "ragflow_lg.tools"


def load_catalog() -> Registry:
    """Make a registry of all built-in and installed components."""
    sources = {
        file.stem.replace("_", ""): partial(_built_in, f"{package.__name__}.{file.stem}")
        for package in (ragflow_lg.components, ragflow_lg.tools)
        for file in sorted(Path(package.__path__[0]).glob("[!_]*.py"))
    }
    return Registry(sources | {ENTRY_POINT_GROUP: _installed, FUNCTION_GROUP: _functions})


def specs_of(module: ModuleType) -> list[ComponentSpec[Any]]:
    """Give the specs that a module defines."""
    return [value for value in vars(module).values() if isinstance(value, ComponentSpec)]


def _built_in(module: str) -> Iterable[ComponentSpec[Any]]:
    return specs_of(importlib.import_module(module))


def _installed() -> Iterable[ComponentSpec[Any]]:
    # Looking through all distributions takes as long as importing ten components.
    from importlib.metadata import entry_points

    for entry_point in entry_points(group=ENTRY_POINT_GROUP):
        spec = load_entry_point(entry_point, "component")
        if not isinstance(spec, ComponentSpec):
            raise SettingsError(
                f"The entry point {entry_point.value!r} of group {ENTRY_POINT_GROUP!r} is not a component; "
                "point it at a function decorated with @component."
            )
        yield cast("ComponentSpec[Any]", spec)


def _functions() -> Iterable[ComponentSpec[Any]]:
    from importlib.metadata import entry_points

    for entry_point in entry_points(group=FUNCTION_GROUP):
        function = load_entry_point(entry_point, "tool")
        if isinstance(function, ComponentSpec):
            raise SettingsError(
                f"The entry point {entry_point.value!r} of group {FUNCTION_GROUP!r} is a component; "
                f"name it under {ENTRY_POINT_GROUP!r}."
            )
        from ragflow_lg.function_tool import spec_of_function

        yield spec_of_function(entry_point.name, function)
