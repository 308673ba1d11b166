"""Tools as canvas nodes, replaced by scripts: the same outputs and errors without the service behind them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ragflow_lg.context import RunContext
from ragflow_lg.errors import ServiceError
from ragflow_lg.refs import Template
from ragflow_lg.spec import ComponentOutputs, ComponentParams, ComponentSpec, component


class Params(ComponentParams):
    """What the tools of the cases take."""

    query: Template = Template("", ())


class Outputs(ComponentOutputs):
    """What the script gives."""


class ToolScripts:
    """The scripts of one turn, by function name."""

    def __init__(self) -> None:
        self.scripts: dict[str, list[dict[str, Any]]] = {}
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def play(self, function: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Take the first unused entry that fits the arguments."""
        self.calls.append((function, dict(arguments)))
        entries = self.scripts.get(function, [])
        text = json.dumps(arguments, ensure_ascii=False)
        for index, entry in enumerate(entries):
            if entry.get("match", "") in text:
                if not entry.get("repeat"):
                    del entries[index]
                if "raise" in entry:
                    raise ServiceError(entry["raise"])
                return {**entry.get("outputs", {}), **_formatted(entry)}
        return {}


def _formatted(entry: Mapping[str, Any]) -> dict[str, Any]:
    if "results" in entry:
        text = "\n".join(str(result.get("content", "")) for result in entry["results"])
        return {"formalized_content": text, "json": entry["results"]}
    return {"formalized_content": entry["result"]} if "result" in entry else {}


def scripted_tool(name: str, scripts: ToolScripts) -> ComponentSpec[Any]:
    """Make a component that plays the script of the tool ``name``."""
    function = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    function = {"wikipedia": "wikipedia_search"}.get(function, function)

    def any_output(params: Params) -> Iterable[str] | None:
        return None

    @component(name, params=Params, outputs=Outputs, output_names=any_output, description="Scripted.")
    async def run(ctx: RunContext, params: Params) -> Outputs:
        return Outputs(**scripts.play(function, {"query": ctx.text(params.query)}))

    return run
