"""Components that an agent uses as tools, including other agents and whole canvases."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

from pydantic import BaseModel

from ragflow_lg.agents.agent_tool import SEARCH_ARGUMENTS, AgentTool, Outcome
from ragflow_lg.base.errors import ComponentError, ServiceError
from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.decorator import RunContext
from ragflow_lg.component.plan import PlanNode
from ragflow_lg.component.spec import ToolResult, ToolRules
from ragflow_lg.component.tool import SearchOutputs, build_arguments
from ragflow_lg.engine.canvas_call import parameter_schema
from ragflow_lg.engine.demo import call_tool
from ragflow_lg.services.references import reference_fields


def component_tools(ctx: RunContext) -> list[AgentTool]:
    """Return the components that the node's model may call, in canvas order."""
    return [_tool(ctx, node) for node in ctx.node.tools]


def _tool(ctx: RunContext, node: PlanNode) -> AgentTool:
    rules = node.spec.tool
    assert rules is not None
    runs_once = node.spec.must_run_once(ctx, node.params)
    return AgentTool(
        name=rules.read_name(node.params) or rules.function or node.id.rpartition("-->")[2],
        title=node.title or node.spec.name,
        description=node.params.description or node.spec.description,
        parameters=parameter_schema(node.canvas.plan) if node.canvas else _parameters(rules),
        call=partial(_call, ctx, node, rules),
        check=partial(_call, ctx, node, rules, only_checks=True),
        timeout_s=node.timeout_s,
        label=rules.label,
        extra_attempts=0 if _asks_models(node) else node.extra_attempts,
        retry_delay_s=node.retry_delay_s,
        names=node.permit_names,
        asks_models=_asks_models(node),
        runs_once=runs_once,
        effects=node.spec.effects_of(ctx, node.params),
        configuration=partial(_configuration, ctx, node) if _is_cacheable(node) and not runs_once else None,
        # Other tools report their errors to the model, as in RAGFlow.
        default=node.on_error.default if _asks_models(node) and node.on_error.method == "comment" else None,
        search_argument="" if runs_once else _search_argument(node, rules),
    )


def _search_argument(node: PlanNode, rules: ToolRules[Any, Any]) -> str:
    """Return the argument for the query of a search tool. SQL also returns search results, but is not a query."""
    is_search = issubclass(node.spec.outputs, SearchOutputs) and rules.needs in SEARCH_ARGUMENTS
    return rules.needs if is_search else ""


def _parameters(rules: ToolRules[Any, Any]) -> Mapping[str, Any]:
    schema = rules.arguments.model_json_schema()
    if rules.needs:
        schema["properties"][rules.needs].pop("default", None)
        schema["required"] = sorted({*schema.get("required", ()), rules.needs})
    return schema


def _is_cacheable(node: PlanNode) -> bool:
    """Return whether a result depends on params and arguments alone; agents and canvases also see the conversation."""
    return node.spec.kind == "plain" and node.canvas is None


def _asks_models(node: PlanNode) -> bool:
    return node.spec.kind == "model" or node.canvas is not None


def _configuration(ctx: RunContext, node: PlanNode) -> JsonValue:
    child = ctx.child(node, "")
    values: list[JsonValue] = [[reference.text, child.value(reference)] for reference, _ in node.references]
    return [node.params.model_dump(mode="json", exclude={"inputs", "outputs", "debug_inputs"}), values]


async def _call(
    ctx: RunContext,
    node: PlanNode,
    rules: ToolRules[Any, Any],
    requested: Mapping[str, Any],
    position: str,
    *,
    only_checks: bool = False,
) -> Outcome:
    child = ctx.child(node, position)
    arguments = build_arguments(child, rules, node.params, requested)
    if only_checks:
        return Outcome("")
    try:
        result = await _run(child, rules, arguments)
    except (ComponentError, ServiceError) as error:
        if not _asks_models(node):
            raise
        # The error of a canvas names the canvas and its node.
        message = str(error) if node.canvas is not None else f"{node.title or node.spec.name} error: {error}"
        return Outcome(message, is_error=True, usage=child.usage, tokens=child.budget.spent)
    chunks, documents = _sources(child, result)
    files: Any = result.artifacts or result.outputs.get("_ARTIFACTS") or ()
    files = cast("list[Any]", files if isinstance(files, list | tuple) else [])
    artifacts: list[Mapping[str, JsonValue]] = [file for file in files if isinstance(file, Mapping)]
    value = result.value if result.value is not None else result.outputs.get("content") or dict(result.outputs) or None
    return Outcome(
        value, chunks=chunks, usage=child.usage, artifacts=artifacts, documents=documents, tokens=child.budget.spent
    )


def _sources(
    child: RunContext, result: ToolResult
) -> tuple[Sequence[Mapping[str, JsonValue]], Sequence[Mapping[str, JsonValue]] | None]:
    """Return the chunks and documents that a call found. Two chunks may still have the same usual number."""
    if not child.new_references:
        return [reference_fields(chunk) for chunk in result.chunks], result.documents
    child.cite(result.chunks, result.documents)
    chunks, documents = ([*child.new_references.get(name, {}).values()] for name in ("chunks", "doc_aggs"))
    return chunks, documents


async def _run(child: RunContext, rules: ToolRules[Any, Any], arguments: BaseModel) -> ToolResult:
    """Run the component. Agents and canvases are retried here: a further attempt knows what was wrong with the last."""
    node = child.node
    retries = node.extra_attempts if _asks_models(node) else 0
    while True:
        try:
            return await call_tool(child, node, arguments, partial(rules.call, child, node.params, arguments))
        except (ComponentError, ServiceError):
            if not retries:
                raise
        retries -= 1
        await asyncio.sleep(node.retry_delay_s)
