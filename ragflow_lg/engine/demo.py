"""What a demo gives in place of services: sample results, which say that they are samples.

In a demo (`ragflow_lg.services.services.Services.is_demo`) a canvas sends no e-mail and no web request. Other nodes and
tools run as usual as far as the settings have what they need; else their result is a sample. Components do not know it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel

from ragflow_lg.base.errors import CassetteError, ComponentError, RagflowLgError, RunCancelled, SettingsError
from ragflow_lg.base.example_values import example_value
from ragflow_lg.base.markdown_table import markdown_table
from ragflow_lg.base.values import JsonValue, to_text
from ragflow_lg.component.context import RunContext
from ragflow_lg.component.plan import PlanNode
from ragflow_lg.component.spec import ComponentOutputs, ToolResult
from ragflow_lg.component.tool import (
    ReportOutputs,
    SearchOutputs,
    TextOutputs,
    build_report,
    build_search_result,
    build_text_result,
)

R = TypeVar("R", ToolResult, ComponentOutputs)

NOTICE = "Demo data: this result is a sample. Nothing was sent, or the settings lack what the node needs."
"""Says in the events and the trace that a node has got a sample."""

TRY_S = 20.0
"""How long a node may try to run with what the settings do not name."""

_OWN = frozenset({"database", "dataset", "memory", "model", "reranker", "search_option"})
"""The kinds of `ragflow_lg.component.spec.Requirement` that are really asked. Others are services of somebody else."""
_NAMED = frozenset({"database", "dataset", "memory"})
"""The kinds whose failures are no reason for a sample: what the settings name has failed, and is not missing."""
_MAX_TOPIC_CHARS = 80
_SIGN = "would stand here"
_MARKS = (_SIGN, "would now ", "(demo data)")
"""What shows that a text was written by the demo model, or is a sample."""
_ROWS: Sequence[dict[str, JsonValue]] = (
    {"id": 1, "name": "Sample A (demo data)", "amount": 120},
    {"id": 2, "name": "Sample B (demo data)", "amount": 80},
    {"id": 3, "name": "Sample C (demo data)", "amount": 45},
)


async def run_component(ctx: RunContext, node: PlanNode) -> ComponentOutputs:
    """Run a node's component, or return a sample of its outputs."""
    if not ctx.services.is_demo or not _has_samples(ctx, node):
        return await node.spec.run(ctx, node.params)
    found = await _try(ctx, node, lambda: node.spec.run(ctx, node.params))
    if found is not None:
        return found
    result = _sample(ctx, node, to_text(ctx.global_value("sys.query")))
    ctx.cite(result.chunks, result.documents)
    return node.spec.outputs.model_validate(dict(result.outputs))


async def call_tool(
    ctx: RunContext, node: PlanNode, arguments: BaseModel, call: Callable[[], Awaitable[ToolResult]]
) -> ToolResult:
    """Make a model's call of a component, or return a sample of its result."""
    if not ctx.services.is_demo or not _has_samples(ctx, node):
        return await call()
    texts = [value for value in arguments.__dict__.values() if isinstance(value, str) and value]
    found = await _try(ctx, node, call)
    return _sample(ctx, node, texts[0] if texts else "") if found is None else found


def read_items(ctx: RunContext, node: PlanNode) -> Sequence[JsonValue] | None:
    """Return the items of a region, or samples if what it names is no list."""
    assert node.spec.region is not None
    try:
        return node.spec.region.items(ctx, node.params)
    except RagflowLgError:
        if not ctx.services.is_demo:
            raise
        return example_value({"type": "array"}, "item")


def describe_sample(name: str, topic: str) -> str:
    """Return a text in place of what a tool would return."""
    topic = "" if topic == "demo" or _is_own(topic) else " ".join(topic.split())[:_MAX_TOPIC_CHARS]
    return f"This is demo data: what {name} would return{f' for “{topic}”' if topic else ''} {_SIGN}."


def _is_own(text: str) -> bool:
    return any(mark in text for mark in _MARKS)


def _has_samples(ctx: RunContext, node: PlanNode) -> bool:
    if node.spec.kind == "region":
        return True
    return node.spec.kind == "plain" and node.canvas is None and node.spec.effects_of(ctx, node.params) != "none"


async def _try(ctx: RunContext, node: PlanNode, run: Callable[[], Awaitable[R]]) -> R | None:
    """Return the result of what has no effect outside, or None for a sample."""
    kinds = {need.kind for need in node.spec.requires(node.params)}
    is_named = not kinds.isdisjoint(_NAMED)
    if kinds <= _OWN and node.spec.effects_of(ctx, node.params) != "writes":
        try:
            async with asyncio.timeout(None if is_named else TRY_S):
                found = await run()
            if not _is_empty(node, found, is_named=is_named):
                return found
        except (RunCancelled, CassetteError):
            raise
        except (RagflowLgError, TimeoutError) as error:
            if is_named and not isinstance(error, SettingsError | ComponentError):
                raise
            ctx.partial.clear()
    if NOTICE not in ctx.notices:
        ctx.notices.append(NOTICE)
    return None


def _is_empty(node: PlanNode, found: ToolResult | ComponentOutputs, *, is_named: bool) -> bool:
    """Return whether a search has found nothing because of the demo.

    Templates say nothing to search, and the demo model writes no SQL.
    """
    outputs: Mapping[str, Any] = found.outputs if isinstance(found, ToolResult) else found.__pydantic_extra__ or {}
    if _is_sql(node):
        results: list[JsonValue] = [*(outputs.get("json") or ())]
        has_rows = any(isinstance(rows, list) for rows in results)
        return not has_rows and (not is_named or _is_own(to_text(results)))
    is_search = issubclass(node.spec.outputs, SearchOutputs) and not any(True for _ in node.spec.requires(node.params))
    return is_search and not outputs.get("json")


def _is_sql(node: PlanNode) -> bool:
    return node.spec.tool is not None and node.spec.tool.needs == "sql"


def _sample(ctx: RunContext, node: PlanNode, topic: str) -> ToolResult:
    spec, text = node.spec, describe_sample(node.name, topic)
    if _is_sql(node):
        table = markdown_table(_ROWS)
        return ToolResult(table, {"formalized_content": table, "json": [[*_ROWS]]})
    if issubclass(spec.outputs, SearchOutputs):
        rows: list[dict[str, Any]] = [
            {"title": f"Sample {n} (demo data)", "url": f"https://example.com/{n}", "content": f"Sample {n}: {text}"}
            for n in (1, 2)
        ]
        return build_search_result(rows, lambda row: (row["title"], row["url"], row["content"], 1.0))
    if issubclass(spec.outputs, TextOutputs):
        return build_text_result(text)
    if issubclass(spec.outputs, ReportOutputs):
        return build_report(text)
    outputs = _example_outputs(node, text)
    return ToolResult(outputs or text, outputs)


def _example_outputs(node: PlanNode, text: str) -> dict[str, JsonValue]:
    """Return examples of the outputs that the component and the canvas declare."""
    spec = node.spec
    if spec.region is not None:
        return {name: [] for name in spec.region.collects(node.params)}
    schemas: dict[str, Any] = {**spec.outputs.model_json_schema().get("properties", {})}
    schemas |= spec.output_schemas(node.params)
    outputs: dict[str, JsonValue] = {}
    for name, part in schemas.items():
        if name.startswith("_") or part.get("default", "") is None:
            continue
        if part.get("type") == "string" and text not in outputs.values():
            outputs[name] = text
        else:
            outputs[name] = True if part.get("default") is False else example_value(part, name)
    return outputs
