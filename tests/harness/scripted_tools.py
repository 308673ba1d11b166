"""Tools that play scripts: the same outputs and errors as the real tools, without their services."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from typing import Any

from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, create_model

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.component.context import RunContext
from ragflow_lg.component.spec import AnySpec, ComponentOutputs, ComponentParams, ToolResult
from ragflow_lg.component.tool import build_search_result, tool
from ragflow_lg.services.tool_policies import ServerAnswer


class Arguments(BaseModel):
    """All arguments of the model or the canvas; the required one is a field of its own."""

    model_config = ConfigDict(extra="allow")


class Outputs(ComponentOutputs):
    """The outputs of the script."""


class ScriptedServer:
    """A tool server that plays the scripts of a turn, by the names of its tools."""

    def __init__(self, scripts: ToolScripts) -> None:
        self._scripts = scripts

    def check(self, tool: str) -> None:
        """Accept every tool."""

    async def call(self, tool: str, arguments: Mapping[str, Any], headers: Mapping[str, str]) -> ServerAnswer:
        """Play the next entry of the tool's script."""
        return ServerAnswer((str((await self._scripts.play(tool, arguments)).value),))


class ToolScripts:
    """The scripts of one turn, by function name."""

    def __init__(self) -> None:
        self.scripts: dict[str, list[dict[str, Any]]] = {}
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def play_here(self) -> None:
        """Let the scripted tools in this context play these scripts."""
        _scripts.set(self)

    async def play(self, function: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Return the result of the first unused entry that matches the arguments."""
        self.calls.append((function, dict(arguments)))
        entries = self.scripts.get(function, [])
        text = json.dumps(arguments, ensure_ascii=False)
        for index, entry in enumerate(entries):
            if entry.get("match", "") in text:
                if not entry.get("repeat"):
                    del entries[index]
                await asyncio.sleep(entry.get("delay_ms", 0) / 1000)
                if "raise" in entry:
                    raise ServiceError(entry["raise"])
                return _result(entry)
        return ToolResult(None)


_scripts: ContextVar[ToolScripts] = ContextVar("scripts")


def _result(entry: Mapping[str, Any]) -> ToolResult:
    outputs = dict(entry.get("outputs", {}))
    if "results" in entry:
        search = build_search_result(
            entry["results"], lambda row: (row["title"], row["url"], row["content"], row.get("score", 1))
        )
        return ToolResult(search.value, {**outputs, **search.outputs}, search.chunks)
    if "result" in entry:
        return ToolResult(entry["result"], {"formalized_content": entry["result"], **outputs})
    return ToolResult(outputs.get("content") or outputs or None, outputs)


def scripted_tool(real: AnySpec) -> AnySpec:
    """Return a tool that plays the script of a real one, with its parameters and outputs."""
    assert real.tool is not None
    function, needs = real.tool.function, real.tool.needs
    real_arguments: Any = create_model("Arguments", __base__=(Arguments, real.tool.arguments))

    def any_output(params: ComponentParams) -> Iterable[str] | None:
        return None

    async def play(ctx: RunContext, params: ComponentParams, arguments: Arguments) -> ToolResult:
        return await _scripts.get().play(function, arguments.model_dump(mode="json", exclude_unset=True))

    spec = tool(
        real.name,
        function=function,
        params=real.params,
        arguments=real_arguments,
        outputs=Outputs,
        defaults={} if needs == "urls" else {needs: "{sys.query}"},
        needs=needs,
        output_names=any_output,
        description="Scripted.",
    )(play)
    assert spec.tool is not None
    rules = spec.tool

    async def call(ctx: RunContext, params: ComponentParams, arguments: Arguments) -> ToolResult:
        # What a call without its query finds is a matter of RAGFlow's tools, which the scripts stand for.
        return await (play if ctx.compatibility.old_values else rules.call)(ctx, params, arguments)

    return replace(spec, tool=replace(rules, call=call))
