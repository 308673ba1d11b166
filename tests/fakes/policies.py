"""Catalogs with functions as tools, deployments with canvases, and guards."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.values import JsonValue
from ragflow_lg.catalog import load_catalog
from ragflow_lg.component.function_tool import spec_of_function
from ragflow_lg.component.registry import Registry
from ragflow_lg.dsl.compatibility import Compatibility
from ragflow_lg.dsl_compiler.deployment import NO_LIMITS, CanvasLimits, CanvasSource
from ragflow_lg.services.tool_policies import Allow, ToolPermits, ToolUse, Verdict


def catalog_with(**functions: Callable[..., Any]) -> Registry:
    """Return a catalog of all components and these functions, by name."""
    catalog = load_catalog()
    for name, function in functions.items():
        catalog.add(spec_of_function(name, function))
    return catalog


def entry(name: str, **params: Any) -> dict[str, Any]:
    """Return an entry of an agent's tools."""
    return {"component_name": name, "name": name, "params": params}


@dataclass
class Canvases:
    """A deployment with canvas documents by name or path."""

    documents: Mapping[str, Any] = field(default_factory=dict[str, Any])
    permits: ToolPermits = field(default_factory=ToolPermits)
    key: str = ""
    servers: Mapping[str, Sequence[str] | None] | None = None
    compatibility: Compatibility = field(default_factory=Compatibility)
    limits: CanvasLimits = NO_LIMITS

    def canvas_by_name(self, name: str) -> CanvasSource:
        if name not in self.documents:
            raise SettingsError(f"There is no canvas {name!r}.")
        document = self.documents[name]
        content = document if isinstance(document, bytes) else json.dumps(document).encode()
        return CanvasSource(name, name, content, replace(self, key=name))

    def canvas_at_path(self, path: str) -> CanvasSource:
        return self.canvas_by_name(path)


@dataclass
class Guard:
    """A guard with fixed verdicts that records its calls."""

    before_verdict: Any = field(default_factory=Allow)
    after_verdict: Any = field(default_factory=Allow)
    calls: list[Any] = field(default_factory=list[Any])

    async def before(self, use: ToolUse) -> Verdict:
        self.calls.append(("before", use.tool, dict(use.arguments)))
        return self._verdict(self.before_verdict)

    async def after(self, use: ToolUse, result: JsonValue) -> Verdict:
        self.calls.append(("after", use.tool, result))
        return self._verdict(self.after_verdict)

    def _verdict(self, verdict: Any) -> Any:
        if isinstance(verdict, Exception):
            raise verdict
        return verdict
