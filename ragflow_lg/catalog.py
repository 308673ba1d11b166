"""The catalog of all components, built-in and installed.

Built-in components are the modules in `ragflow_lg.components`, each named after its component in snake case. Others are
provided by integrations (`ragflow_lg.component.integration`), or by installed distributions through an entry point in
the group ``ragflow_lg.components`` (a `ComponentSpec`) or ``ragflow_lg.tools`` (a plain function or a tool of
LangChain). Each is imported on first use. Errors in installed packages are not swallowed: they are kept as a
`BrokenSpec`, whose error is raised only when that component is used.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.extras import describe_entry_point, find_entry_points, load_entry_point
from ragflow_lg.component.integration import BUILT_IN, GROUP, Integration, find_integrations
from ragflow_lg.component.registry import BrokenSpec, Registry, Source
from ragflow_lg.component.spec import AnySpec, ComponentSpec

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINT_GROUP = "ragflow_lg.components"
FUNCTION_GROUP = "ragflow_lg.tools"


def load_catalog() -> Registry:
    """Create a registry with all built-in and installed components."""
    sources = {
        module.replace("_", ""): partial(_load_built_in, f"ragflow_lg.components.{module}") for module in BUILT_IN
    }
    return Registry(sources, _find_more)


def _find_more() -> dict[str, Source]:
    """Return what loads the components of integrations and of installed distributions."""
    found = find_integrations()
    sources: dict[str, Source] = {
        name.lower(): partial(_load_integrated, name, integration, place)
        for integration in found.integrations.values()
        for name, place in integration.components.items()
    }
    missing = [BrokenSpec(f"integration {name}", error) for name, error in found.missing.items()]
    return sources | {
        GROUP: lambda: missing,
        ENTRY_POINT_GROUP: partial(_load_installed, ENTRY_POINT_GROUP, _load_component),
        FUNCTION_GROUP: partial(_load_installed, FUNCTION_GROUP, _load_function),
    }


def find_specs(module: ModuleType) -> list[AnySpec]:
    """Return the specs that a module defines."""
    return [value for value in vars(module).values() if isinstance(value, ComponentSpec)]


def _load_built_in(module: str) -> Iterable[AnySpec]:
    return find_specs(importlib.import_module(module))


def _load_integrated(name: str, integration: Integration, place: str) -> Iterable[AnySpec | BrokenSpec]:
    try:
        module = integration.load(place)
    except SettingsError as error:
        return [BrokenSpec(name, error)]
    return [spec for spec in find_specs(module) if spec.name in integration.components]


def _load_installed(group: str, read: Callable[[EntryPoint], AnySpec]) -> Iterable[AnySpec | BrokenSpec]:
    for entry_point in find_entry_points(group):
        try:
            yield read(entry_point)
        except SettingsError as error:
            yield BrokenSpec(entry_point.name, error)


def _load_component(entry_point: EntryPoint) -> AnySpec:
    spec = load_entry_point(entry_point, "component")
    if not isinstance(spec, ComponentSpec):
        raise SettingsError(
            f"{describe_entry_point(entry_point)} is not a component; point it at a function decorated with @component."
        )
    return cast("AnySpec", spec)


def spec_of_any_tool(name: str, value: Any) -> AnySpec:
    """Return the component for a tool: a function, a tool of LangChain, or a component.

    Raises:
        SettingsError: if it cannot be a tool.
    """
    if isinstance(value, ComponentSpec):
        return cast("AnySpec", value)
    from ragflow_lg.adapters.langchain_tools import is_langchain_tool, spec_of_tool
    from ragflow_lg.component.function_tool import spec_of_function

    return spec_of_tool(name, value) if is_langchain_tool(value) else spec_of_function(name, value)


def _load_function(entry_point: EntryPoint) -> AnySpec:
    function = load_entry_point(entry_point, "tool")
    if isinstance(function, ComponentSpec):
        raise SettingsError(f"{describe_entry_point(entry_point)} is a component; put it under {ENTRY_POINT_GROUP!r}.")
    try:
        return spec_of_any_tool(entry_point.name, function)
    except SettingsError as error:
        raise SettingsError(f"{describe_entry_point(entry_point)} cannot be a tool: {error}") from None
