"""Tools made in a test: functions in a catalog of its own, canvases of a deployment of its own, guards."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.values import JsonValue
from ragflow_lg.catalog import load_catalog
from ragflow_lg.component.function_tool import spec_of_function
from ragflow_lg.component.registry import Registry
from ragflow_lg.dsl_compiler.deployment import CanvasSource
from ragflow_lg.services.tool_policies import Allow, ToolPermits, ToolUse, Verdict


def catalog_with(**functions: Callable[..., Any]) -> Registry:
    """Give all components, and functions by name."""
    catalog = load_catalog()
    for name, function in functions.items():
        catalog.add(spec_of_function(name, function))
    return catalog


def entry(name: str, **params: Any) -> dict[str, Any]:
    """Give an entry of an agent's tools."""
    return {"component_name": name, "name": name, "params": params}


@dataclass
class Canvases:
    """A deployment whose canvases are documents, by name and by path."""

    documents: Mapping[str, Any] = field(default_factory=dict)
    permits: ToolPermits = field(default_factory=ToolPermits)
    key: str = ""
    servers: Mapping[str, Sequence[str] | None] | None = None

    def canvas_by_name(self, name: str) -> CanvasSource:
        if name not in self.documents:
            raise SettingsError(f"There is no canvas {name!r}.")
        document = self.documents[name]
        content = document if isinstance(document, bytes) else json.dumps(document).encode()
        return CanvasSource(name, name, content, Canvases(self.documents, self.permits, name, self.servers))

    def canvas_at_path(self, path: str) -> CanvasSource:
        return self.canvas_by_name(path)


@dataclass
class Guard:
    """A guard that says what it is made to say, and remembers what it was asked."""

    before_verdict: Any = field(default_factory=Allow)
    after_verdict: Any = field(default_factory=Allow)
    calls: list[Any] = field(default_factory=list)

    async def before(self, use: ToolUse) -> Verdict:
        self.calls.append(("before", use.tool, dict(use.arguments)))
        return self._said(self.before_verdict)

    async def after(self, use: ToolUse, result: JsonValue) -> Verdict:
        self.calls.append(("after", use.tool, result))
        return self._said(self.after_verdict)

    def _said(self, what: Any) -> Any:
        if isinstance(what, Exception):
            raise what
        return what
