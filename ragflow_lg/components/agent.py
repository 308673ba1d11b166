"""Agent: a chat model with tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel, Field

from ragflow_lg.agents.agent_run import AgentRun
from ragflow_lg.agents.component_tools import component_tools
from ragflow_lg.agents.question import with_whole_question
from ragflow_lg.agents.strategies import STRATEGIES
from ragflow_lg.agents.toolbox import Toolbox
from ragflow_lg.chat_params import (
    GO_NAMES,
    PromptedParams,
    WholeNumber,
    renamed,
    schema_findings,
    structured_names,
)
from ragflow_lg.diagnostics import Finding
from ragflow_lg.model_call import Show, ask, ask_structured, read_structured, request_of
from ragflow_lg.prompts import ChatMessage
from ragflow_lg.spec import ComponentOutputs, ToolEntry, ToolResult, ToolRules, component
from ragflow_lg.thinking import without_thinking
from ragflow_lg.values import JsonValue

if TYPE_CHECKING:
    from ragflow_lg.context import RunContext

__all__ = ["agent"]


class Params(PromptedParams):
    """Parameters of Agent."""

    tools: list[Any] = Field(default_factory=list[Any])
    """What the model may call: ``{component_name, name, params}`` each."""
    mcp: list[Any] = Field(default_factory=list[Any])
    max_rounds: WholeNumber = 5
    """How many rounds of calls the model has after the first."""
    user_prompt: str | None = ""
    """Of an agent that is a tool: what it is asked where its caller does not say."""


class Outputs(ComponentOutputs):
    """The answer: ``content``, or ``structured`` where a schema is declared."""

    content: str | None = None


class Arguments(BaseModel):
    """What an agent that is a tool is told."""

    user_prompt: str = Field(description="The task, as an order that stands by itself.")
    reasoning: str = Field("", description="Why this task is set.")
    context: str = Field("", description="What is known already and matters for it.")


def _rewrite(params: Mapping[str, Any]) -> Mapping[str, Any]:
    return renamed(params, GO_NAMES)


def _streams(params: Params) -> bool:
    return params.json_schema is None


def _lint(params: Params) -> Iterable[Finding]:
    yield from schema_findings(params)
    if params.mcp:
        message = "Tools of MCP servers cannot be called in this version."
        yield Finding("component-not-yet", "error", ("mcp",), message, "Take the servers out of mcp.")


def _tools(params: Params) -> Sequence[ToolEntry]:
    entries: list[ToolEntry] = []
    for index, tool in enumerate(params.tools):
        if isinstance(tool, Mapping):
            held = cast("Mapping[str, Any]", tool)
            name = str(held.get("component_name") or "")
            own: Any = held.get("params")
            given = cast("Mapping[str, Any]", own if isinstance(own, Mapping) else {})
            entries.append(ToolEntry(name, str(held.get("name") or name), given, ("tools", index)))
    return entries


async def _as_tool(ctx: RunContext, params: Params, arguments: Arguments) -> ToolResult:
    """Run as a tool of another agent: the task takes the place of the prompts."""
    outputs = await _answer(ctx, params, [{"role": "user", "content": _task(arguments)}])
    value: JsonValue = outputs.content if outputs.content is not None else outputs.model_dump().get("structured")
    return ToolResult(value)


def _task(arguments: Arguments) -> str:
    if not arguments.reasoning and not arguments.context:
        return arguments.user_prompt
    parts = {"REASONING": arguments.reasoning, "CONTEXT": arguments.context, "QUERY": arguments.user_prompt}
    return "\n" + "\n".join(f"{head}:\n{text}\n" for head, text in parts.items())


async def _answer(ctx: RunContext, params: Params, prompts: Sequence[ChatMessage] | None = None) -> Outputs:
    model = ctx.services.models.model(params.llm_id or "")
    schema = params.json_schema
    request = request_of(ctx, params, model, schema=schema, prompts=prompts)
    show = Show(ctx) if ctx.is_streaming and schema is None else None
    toolbox = Toolbox(ctx, component_tools(ctx))
    if not toolbox.schemas or not model.has_tools:
        if schema is not None:
            return Outputs.model_validate({"structured": await ask_structured(ctx, model, request, schema)})
        text = (await ask(ctx, model, request, show)).text
    else:
        if show is not None:
            request = await with_whole_question(ctx, model, request)
        try:
            run = AgentRun(ctx, model, request, toolbox, params.max_rounds, show)
            text = await run.play(STRATEGIES["function_calling"])
        finally:
            if show is not None:
                await show.end_thought()
        if schema is not None:
            return Outputs.model_validate({"structured": await read_structured(ctx, model, text, schema)})
    return Outputs(content=show.text if show else without_thinking(text))


@component(
    "Agent",
    kind="model",
    params=Params,
    outputs=Outputs,
    retries=True,
    timeout_s=1200.0,
    streams=_streams,
    output_names=structured_names,
    lint=_lint,
    rewrite=_rewrite,
    tools=_tools,
    tool=ToolRules("", Arguments, _as_tool),
    description="Ask a chat model that may call tools.",
    source="agent/component/agent_with_tools.py",
)
async def agent(ctx: RunContext, params: Params) -> Outputs:
    """Ask, let the model call its tools, and give its answer."""
    return await _answer(ctx, params)
