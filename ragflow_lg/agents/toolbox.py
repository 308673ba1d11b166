"""The tools of an agent, as its model sees them, and calling them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from pydantic import ValidationError

from ragflow_lg.errors import RagflowLgError, RunCancelled
from ragflow_lg.plan import PlanNode
from ragflow_lg.services import ToolCall, ToolSchema, Usage
from ragflow_lg.spec import ToolResult
from ragflow_lg.tool import problem_of
from ragflow_lg.values import JsonValue, to_json

if TYPE_CHECKING:
    from ragflow_lg.context import RunContext

__all__ = ["Toolbox"]

MAX_NAME_CHARS = 64
MAX_MENDED_CHARS = 50_000
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")


class Toolbox:
    """The tools of one visit. Their names are numbered, so that two of a kind stay apart."""

    def __init__(self, ctx: RunContext) -> None:
        self._ctx = ctx
        self._tools = {_visible(tool, index): tool for index, tool in enumerate(ctx.node.tools)}

    @property
    def schemas(self) -> tuple[ToolSchema, ...]:
        """The tools as a model is shown them."""
        return tuple(_schema(name, tool) for name, tool in self._tools.items())

    async def call(self, call: ToolCall, position: str) -> str:
        """Call a tool once and give what the model is told. ``position`` tells the call from others of the visit.

        Whatever goes wrong is told the model. Should the visit be run again after a crash, a call that has ended is
        not repeated.
        """
        tool = self._tools.get(call.name)
        if tool is None:
            return f"LLM tool {call.name} does not exist"
        arguments = _arguments(call.arguments)
        if not isinstance(arguments, dict):
            return f"Tool arguments for {call.name} must be a JSON object, got {type(arguments).__name__}"
        given = cast("dict[str, Any]", arguments)

        async def run() -> JsonValue:
            return await self._run(tool, given, position)

        result = cast("dict[str, Any]", await self._ctx.step(call.name, given, run, position=position))
        self._ctx.cite(result["chunks"])
        self._ctx.count(Usage(*result["usage"]))
        return _told(result["value"])

    async def _run(self, tool: PlanNode, given: Mapping[str, Any], position: str) -> dict[str, JsonValue]:
        rules = tool.spec.tool
        assert rules is not None
        child = self._ctx.child(tool, position)
        result = ToolResult(None)
        try:
            asked = rules.arguments.model_validate(given)
            async with asyncio.timeout(tool.timeout_s):
                result = await rules.call(child, tool.params, asked)
            value = _value_of(result)
        except RunCancelled:
            raise
        except ValidationError as error:
            value = f"The arguments do not fit: {problem_of(error)}"
        except TimeoutError:
            value = f"{tool.title or tool.spec.name} gave no result within {tool.timeout_s:g} s."
        except RagflowLgError as error:
            value = str(error)
        chunks = [*child.found.get("chunks", {}).values(), *result.chunks]
        return {"value": to_json(value), "chunks": to_json(chunks), "usage": list(child.usage)}


def _value_of(result: ToolResult) -> JsonValue:
    """Give what the model is told: where a tool gives nothing, its outputs stand in."""
    if result.value is not None:
        return result.value
    return result.outputs.get("content") or dict(result.outputs) or None


def _visible(tool: PlanNode, index: int) -> str:
    rules = tool.spec.tool
    name = (rules.function if rules else "") or tool.id.rpartition("-->")[2]
    suffix = f"_{index}"
    return _FOREIGN.sub("_", name)[: MAX_NAME_CHARS - len(suffix)] + suffix


def _schema(name: str, tool: PlanNode) -> ToolSchema:
    rules = tool.spec.tool
    assert rules is not None
    schema = rules.arguments.model_json_schema()
    return ToolSchema(name, tool.params.description or tool.spec.description, schema)


def _arguments(text: str) -> JsonValue:
    """Read arguments as JSON, mending what is nearly JSON."""
    with suppress(ValueError, RecursionError):
        return json.loads(text)
    if len(text) <= MAX_MENDED_CHARS:
        from json_repair import loads

        with suppress(ValueError, RecursionError):
            return cast("JsonValue", loads(text))
    return text


def _told(value: JsonValue) -> str:
    """Write a result for the model: a text as it is, everything else as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def calls_as_messages(calls: Sequence[ToolCall]) -> list[dict[str, str]]:
    """Write calls as an assistant message has them."""
    return [call._asdict() for call in calls]
