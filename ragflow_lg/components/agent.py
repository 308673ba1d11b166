"""Agent: a chat model with tools."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, cast

from pydantic import BaseModel, BeforeValidator, Field

from ragflow_lg.agents.agent_run import AgentRun
from ragflow_lg.agents.citation_pass import CitingShow, show_cited
from ragflow_lg.agents.component_tools import component_tools
from ragflow_lg.agents.mcp_tools import mcp_findings, mcp_server_tools, mcp_tools
from ragflow_lg.agents.question_rewriting import with_whole_question
from ragflow_lg.agents.strategies import StrategyName, strategy_for, strategy_named
from ragflow_lg.agents.toolbox import Toolbox
from ragflow_lg.base.diagnostics import Finding
from ragflow_lg.base.errors import ComponentError
from ragflow_lg.base.thinking import AnswerPart, strip_thinking
from ragflow_lg.base.tokens import estimate_tokens
from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.decorator import component
from ragflow_lg.component.spec import ComponentOutputs, ServerTool, ToolEntry, ToolResult, ToolRules
from ragflow_lg.models.chat_params import (
    GO_NAMES,
    PromptedParams,
    WholeNumber,
    lint_schema,
    rename_params,
    structured_output_names,
)
from ragflow_lg.models.model_call import (
    AnswerStream,
    ask,
    build_request,
    find_guidelines,
    has_citations,
    keep_known_citations,
    read_sections,
    read_structured,
)
from ragflow_lg.models.prompts import ChatMessage
from ragflow_lg.models.required_citations import require_citations
from ragflow_lg.services.chat import ChatModel, ChatRequest

if TYPE_CHECKING:
    from ragflow_lg.component.context import RunContext

__all__ = ["agent"]


def _blank_as_unset(value: Any) -> Any:
    return (value.strip().lower() or None) if isinstance(value, str) else value


class Params(PromptedParams):
    """Parameters of Agent."""

    tools: list[Any] = Field(default_factory=list[Any])
    """What the model may call: ``{component_name, name, params}`` each."""
    mcp: list[Any] = Field(default_factory=list[Any])
    """Tools of MCP servers: ``{mcp_id, tools: {name: {description, inputSchema}}}`` each, by ids of the settings."""
    custom_header: dict[str, Any] | None = None
    """Further headers for MCP servers."""
    allowed_tools: list[str] | None = None
    """Names and patterns of the tools that may be called at most; null for all that the deployment permits."""
    max_rounds: WholeNumber = 5
    """How many rounds of calls the model has after the first."""
    strategy: Annotated[StrategyName | None, BeforeValidator(_blank_as_unset)] = None
    """How the model uses its tools: ``function_calling``, ``react`` (in plain text) or ``plan_and_reflect``. Unset, a
    model that calls tools itself gets the first, any other the second."""
    max_total_tokens: WholeNumber = 0
    """Once so many tokens are used by its models, those of nested agents included, it has to answer; 0 for no limit."""
    user_prompt: str | None = ""
    """Of an agent that is a tool: what it is asked where its caller does not say."""


class Outputs(ComponentOutputs):
    """The answer: ``content``, or ``structured`` where a schema is declared."""

    content: str | None = None
    use_tools: list[Any] | None = None
    """``{name, arguments, results}`` of each call of a tool, in order."""


class Arguments(BaseModel):
    """What an agent that is a tool is told."""

    user_prompt: str = Field(description="The task, as an order that stands by itself.")
    reasoning: str = Field("", description="Why this task is set.")
    context: str = Field("", description="What is known already and matters for it.")


def _rewrite(params: Mapping[str, Any]) -> Mapping[str, Any]:
    return rename_params(params, GO_NAMES)


def _streams(params: Params) -> bool:
    return params.json_schema is None and not params.requires_evidence


def _lint(params: Params) -> Iterable[Finding]:
    yield from lint_schema(params)
    yield from mcp_findings(params.mcp)


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


def _server_tools(params: Params) -> Iterable[ServerTool]:
    return mcp_server_tools(params.mcp)


def _allowed_tools(params: Params) -> Sequence[str] | None:
    return params.allowed_tools


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
    ctx.budget.limit = params.max_total_tokens
    model = ctx.services.models.model(params.llm_id or "")
    toolbox = Toolbox(ctx, [*component_tools(ctx), *mcp_tools(ctx, params.mcp, params.custom_header or {})])
    guidelines = find_guidelines(ctx, params) if prompts is None else ""
    if not toolbox.schemas:
        return await _without_tools(ctx, params, model, prompts, guidelines)
    show = _show(ctx, params)
    strategy = strategy_for(model, params.strategy)
    says_schema = strategy == "function_calling"  # the others tell the model where the schema holds
    reserved = estimate_tokens(guidelines) + sum(estimate_tokens(json.dumps(t.parameters)) for t in toolbox.schemas)
    request = build_request(
        ctx,
        params,
        model,
        schema=params.json_schema if says_schema else None,
        prompts=prompts,
        reserved_tokens=min(reserved, model.context_tokens // 4),
    )
    if show is not None:
        request = await with_whole_question(ctx, model, request)
    run = AgentRun(
        ctx,
        model,
        request,
        toolbox,
        params.max_rounds,
        show,
        None if says_schema else params.json_schema,
        guidelines,
        read_sections(ctx, params),
    )
    try:
        text = await run.play(partial(_cited, strategy_named(strategy)))
    finally:
        ctx.partial["use_tools"] = run.gathered.use_tools
        if show is not None:
            await show.finish_text()
            await show.end_thought()
    outputs = await _checked(run, params, text)
    return outputs.model_copy(update={"use_tools": run.gathered.use_tools})


def _show(ctx: RunContext, params: Params) -> AnswerStream | None:
    """Give what shows the answer as it comes, None where it is given whole."""
    if not ctx.is_streaming or not _streams(params):
        return None
    return CitingShow(ctx) if has_citations(ctx, params) else AnswerStream(ctx)


async def _cited(strategy: Callable[[AgentRun], Awaitable[str]], run: AgentRun) -> str:
    """Let a strategy find the answer, and have it written again if it cites nothing of what was found."""
    text = await strategy(run)
    if isinstance(run.show, CitingShow):
        await show_cited(run, run.show)
    return text


async def _without_tools(
    ctx: RunContext, params: Params, model: ChatModel, prompts: Sequence[ChatMessage] | None, guidelines: str
) -> Outputs:
    if not ctx.references["chunks"]:
        guidelines = ""
    request = build_request(ctx, params, model, schema=params.json_schema, prompts=prompts, guidelines=guidelines)
    show = _show(ctx, params)
    run = AgentRun(ctx, model, request, Toolbox(ctx, ()), 0, show)
    text = (await ask(ctx, model, request, show)).text
    if show is not None:
        await show.finish_text()
    return await _checked(run, params, text)


async def _checked(run: AgentRun, params: Params, text: str) -> Outputs:
    """Hold the answer against what it has to be, and put links to the files below it that tools made."""

    async def ask_again(request: ChatRequest) -> str:
        return (await run.ask(run.told_to_cite(request), "evidence")).text

    ctx, show = run.ctx, run.show
    if params.requires_evidence:
        text = await require_citations(ctx, run.model, run.request, text, ask_again)
    if params.json_schema is not None:
        try:
            value = await read_structured(ctx, run.model, text, params.json_schema)
        except ComponentError:
            ctx.partial["content"] = strip_thinking(text)  # what there is instead
            raise
        return Outputs.model_validate({"structured": value})
    if show is None:
        text = keep_known_citations(ctx, params, strip_thinking(text))
        return Outputs(content=text + run.gathered.links(text))
    if links := run.gathered.links(show.text):
        show.begin()
        await show.write([AnswerPart(links)])
    return Outputs(content=show.text)


@component(
    "Agent",
    kind="model",
    params=Params,
    outputs=Outputs,
    retries=True,
    timeout_s=1200.0,
    streams=_streams,
    output_names=structured_output_names,
    lint=_lint,
    rewrite=_rewrite,
    tools=_tools,
    server_tools=_server_tools,
    allowed_tools=_allowed_tools,
    tool=ToolRules("", Arguments, _as_tool),
    description="Ask a chat model that may call tools.",
    source="agent/component/agent_with_tools.py",
)
async def agent(ctx: RunContext, params: Params) -> Outputs:
    """Ask, let the model call its tools, and give its answer."""
    return await _answer(ctx, params)
