"""Agent: a chat model with tools."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, TypeAlias, cast

from msgspec.structs import replace
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from ragflow_lg.agents.agent_log import QUESTION_NOTE, agent_log_of
from ragflow_lg.agents.agent_run import AgentLoop
from ragflow_lg.agents.citation_pass import CitingStream, show_with_citations
from ragflow_lg.agents.component_tools import component_tools
from ragflow_lg.agents.mcp_tools import mcp_findings, mcp_server_tools, mcp_tools
from ragflow_lg.agents.research_budget import ResearchLimits
from ragflow_lg.agents.strategies import StrategyName, choose_strategy, load_strategy
from ragflow_lg.agents.toolbox import Toolbox
from ragflow_lg.base.diagnostics import Finding
from ragflow_lg.base.errors import ComponentError, ServiceError
from ragflow_lg.base.thinking import AnswerPart, strip_thinking
from ragflow_lg.base.tokens import estimate_tokens
from ragflow_lg.base.values import JsonValue, to_text
from ragflow_lg.component.decorator import RunContext, component
from ragflow_lg.component.spec import ComponentOutputs, ToolEntry, ToolResult, ToolRules
from ragflow_lg.models.answer_checks import cut_notice, empty_answer_error, refuse_cut_sql
from ragflow_lg.models.answer_stream import AnswerStream
from ragflow_lg.models.chat_params import (
    CHAT_UNUSED,
    GO_NAMES,
    PromptedParams,
    WholeNumber,
    answer_calls,
    lint_schema,
    prompt_texts,
    rename_params,
    schema_differences,
    structured_output_names,
    structured_output_schemas,
)
from ragflow_lg.models.citations import require_citations
from ragflow_lg.models.engine_prompts import describe_today, engine_prompt
from ragflow_lg.models.model_call import (
    ask,
    ask_for_answer,
    build_fitted_request,
    find_guidelines,
    has_citations,
    keep_known_citations,
    note_thinking,
    read_sections,
    read_structured,
    strip_checked_thinking,
)
from ragflow_lg.models.prompts import ChatMessage
from ragflow_lg.services.chat import ChatModel, ChatRequest, ToolSchema, Usage

_STEP = "question"
_MIN_MESSAGES = 4
"""In shorter conversations, the question is not rewritten."""


async def with_standalone_question(
    ctx: RunContext, model: ChatModel, request: ChatRequest, tools: tuple[ToolSchema, ...] = ()
) -> ChatRequest:
    """Replace the last message in a longer conversation with a self-contained question.

    Models copy words from the question into tool arguments; a search for "it" would find nothing. ``tools`` are offered
    to the model, but its calls are not made: the question then stays as it is.
    """
    messages = list(request.messages)
    if len(messages) < _MIN_MESSAGES or messages[-1]["role"] != "user":
        return request

    log = agent_log_of(ctx)

    async def call() -> JsonValue:
        conversation = _conversation(messages)
        days = {name: describe_today(ctx, at) for at, name in enumerate(("yesterday", "today", "tomorrow"), -1)}
        system = engine_prompt(ctx, "standalone_question", conversation=conversation, **days)
        rewriting = ChatRequest(system, ({"role": "user", "content": "Output: "},), request.sampling, tools=tools)
        start = log.now()
        answer = await ask(ctx, model, rewriting)
        question = strip_thinking(answer.text).strip()
        return {"question": question, "usage": list(answer.usage), "seconds": log.now() - start}

    stored: Any = await ctx.step("rewritten question", len(messages), call, position=_STEP)
    question: str = stored["question"]
    is_replayed = _STEP in ctx.replayed_steps
    ctx.budget.charge_step(_STEP, sum(stored["usage"][:2]), is_charged=not is_replayed)
    usage = Usage(*stored["usage"])
    await log.record_note(QUESTION_NOTE, question, stored["seconds"], usage, is_replayed=is_replayed)
    if not question:
        return request
    return replace(request, messages=(*messages[:-1], {"role": "user", "content": question}))


def _conversation(messages: Sequence[Any]) -> str:
    return "\n".join(f"{message['role'].upper()}: {message['content']}" for message in messages)


TIME_LIMIT_S = 1200.0
REPORT_TIME_S = 300.0
"""Time for the last search and the answer, after the minutes of a research are used up."""


def _blank_as_unset(value: Any) -> Any:
    return (value.strip().lower() or None) if isinstance(value, str) else value


class Params(PromptedParams):
    """Parameters of Agent."""

    tools: list[Any] = Field(default_factory=list[Any])
    """Components that the model may call: ``{component_name, name, params}`` each, or its name."""
    tool_params: dict[str, Any] | None = None
    """The params of tools that are only named, by name, as RAGFlow 1.0 reads them."""
    mcp: list[Any] = Field(default_factory=list[Any])
    """MCP server tools: ``{mcp_id, tools: {name: {description, inputSchema}}}`` each; the id is set in the settings."""
    custom_header: dict[str, Any] | None = None
    """Additional headers for requests to MCP servers."""
    allowed_tools: list[str] | None = None
    """Names and patterns that restrict the tools; null for all tools that the deployment permits."""
    ask_tools: list[str] = Field(default_factory=list[str])
    """Names and patterns of tools that the user must approve before each call, in addition to the deployment's."""
    max_rounds: WholeNumber = 5
    """Maximum number of rounds of tool calls after the first one."""
    strategy: Annotated[StrategyName | None, BeforeValidator(_blank_as_unset)] = None
    """How the model uses its tools: ``function_calling``, ``react`` (calls as text), ``plan_and_reflect`` or
    ``deep_research`` (search in rounds, then write a report with citations). By default, models with native tool calls
    use ``function_calling`` and others use ``react``."""
    max_queries: WholeNumber = 24
    """For ``deep_research``: maximum number of queries; 0 for no limit."""
    max_minutes: float = Field(15.0, ge=0, le=1440)
    """For ``deep_research``: minutes after which nothing more is searched; 0 for no limit."""
    max_cost: float = Field(0.0, ge=0)
    """For ``deep_research``: cost after which nothing more is searched, according to the prices in the settings; 0 for
    no limit."""
    max_total_tokens: WholeNumber = 0
    """Token limit of the agent and its nested agents, after which it must answer; 0 for no limit."""
    user_prompt: str | None = ""
    """The default task of an agent used as a tool."""


class Outputs(ComponentOutputs):
    """The answer: ``content``, or ``structured`` if a schema is declared."""

    content: str | None = None
    use_tools: list[Any] | None = None
    """``{name, arguments, results}`` of each tool call, in order."""


TaskText: TypeAlias = Annotated[str, BeforeValidator(to_text)]
"""A text from a model: other values become text, and null becomes ``""``."""


class Arguments(BaseModel):
    """The arguments of an agent used as a tool. Without ``user_prompt``, the agent runs with its own prompts."""

    model_config = ConfigDict(json_schema_extra={"required": ["user_prompt"]})

    user_prompt: TaskText = Field("", description="The task, as a self-contained instruction.")
    reasoning: TaskText = Field("", description="Why the task is needed.")
    context: TaskText = Field("", description="Known facts that are relevant to the task.")


def _limit_s(params: Params) -> float | None:
    """Return the time limit: a research may search for as long as its limit allows, and then has time to answer."""
    if params.strategy != "deep_research":
        return TIME_LIMIT_S
    return max(TIME_LIMIT_S, params.max_minutes * 60 + REPORT_TIME_S) if params.max_minutes else None


def _streams(params: Params) -> bool:
    return params.json_schema is None and not params.requires_evidence


def _lint(params: Params) -> Iterable[Finding]:
    yield from lint_schema(params)
    yield from mcp_findings(params.mcp)
    if params.strategy == "deep_research" and not params.tools and not params.mcp:
        message = "The strategy deep_research needs a tool that searches, so the node will fail."
        hint = "Add a Retrieval or a web search, such as TavilySearch, to tools."
        yield Finding("params-unsupported", "warning", ("tools",), message, hint)


def _tools(params: Params) -> Sequence[ToolEntry]:
    entries: list[ToolEntry] = []
    for index, tool in enumerate(params.tools):
        if isinstance(tool, str) and tool.strip():
            tool = {"component_name": tool.strip(), "params": (params.tool_params or {}).get(tool.strip())}
        if isinstance(tool, Mapping):
            entry = cast("Mapping[str, Any]", tool)
            name = str(entry.get("component_name") or "")
            value: Any = entry.get("params")
            tool_params = cast("Mapping[str, Any]", value if isinstance(value, Mapping) else {})
            entries.append(ToolEntry(name, str(entry.get("name") or name), tool_params, ("tools", index)))
    return entries


async def _as_tool(ctx: RunContext, params: Params, arguments: Arguments) -> ToolResult:
    """Run as a tool of another agent; a task replaces the prompts."""
    task = _task(arguments)
    outputs = await _answer(ctx, params, [{"role": "user", "content": task}] if task else None)
    value: JsonValue = outputs.content if outputs.content is not None else outputs.model_dump().get("structured")
    return ToolResult(value)


def _task(arguments: Arguments) -> str:
    """Return the prompt: the task, after the reasoning and the context if the model provides them."""
    if not arguments.user_prompt.strip():
        return ""
    facts = {"REASONING": arguments.reasoning, "CONTEXT": arguments.context}
    given = {head: text for head, text in facts.items() if text.strip()}
    if not given:
        return arguments.user_prompt
    return "".join(f"\n{head}:\n{text}\n" for head, text in {**given, "QUERY": arguments.user_prompt}.items())


async def _answer(
    ctx: RunContext, params: Params, prompts: Sequence[ChatMessage] | None = None, model: ChatModel | None = None
) -> Outputs:
    ctx.budget.limit = params.max_total_tokens
    is_first, model = model is None, model or ctx.services.models.model(params.llm_id or "")
    server_tools = await mcp_tools(ctx, params.mcp, params.custom_header or {})
    toolbox = Toolbox(ctx, [*component_tools(ctx), *server_tools])
    guidelines = find_guidelines(ctx, params)
    if toolbox.schemas and (learn := getattr(model, "learn", None)) is not None:
        await learn("has_tools")
    drops_tools = ctx.compatibility.old_values and not model.has_tools and params.strategy is None
    if drops_tools or (not toolbox.schemas and params.strategy != "deep_research"):
        return await _without_tools(ctx, params, model, prompts, guidelines)
    strategy = choose_strategy(model, params.strategy)
    is_schema_in_request = strategy == "function_calling"  # the other strategies add the schema themselves
    reserved = estimate_tokens(guidelines) + sum(estimate_tokens(json.dumps(t.parameters)) for t in toolbox.schemas)
    request = await build_fitted_request(
        ctx,
        params,
        model,
        schema=params.json_schema if is_schema_in_request else None,
        prompts=prompts,
        reserved_tokens=min(reserved, model.context_tokens // 4),
    )
    window = model.context_tokens
    if _is_streaming(ctx, params):
        offered = toolbox.schemas if ctx.compatibility.old_values else ()
        request = await with_standalone_question(ctx, model, request, offered)
    stream = _stream(ctx, params, request)
    if ctx.compatibility.old_values and strategy == "function_calling":
        guidelines = _old_guidelines(ctx, guidelines, are_twice=stream is not None and len(request.messages) < 6)
    run = AgentLoop(
        ctx,
        model,
        request,
        toolbox,
        params.max_rounds,
        stream,
        None if is_schema_in_request else params.json_schema,
        guidelines,
        read_sections(ctx, params),
        ResearchLimits(params.max_queries, params.max_minutes, params.max_cost),
    )
    try:
        text = await run.play(partial(_answer_with_citations, load_strategy(strategy)))
    except ServiceError as error:
        is_cut = is_first and error.refused == "context_tokens" and model.context_tokens < window
        has_written_tools = strategy == "function_calling" and not model.has_tools
        if run.result.calls or not (is_cut or has_written_tools):
            raise
        return await _answer(ctx, params, prompts, model)  # with what the refusal says of the model
    finally:
        ctx.partial["use_tools"] = cast("list[JsonValue]", run.result.use_tools)
        if stream is not None:
            await stream.finish_text()
            await stream.end_thought()
    if not run.result.calls:
        ctx.notice(f"The model called none of its {len(toolbox.schemas)} tools.", logging.INFO)
    outputs = await _outputs(run, params, text)
    return outputs.model_copy(update={"use_tools": run.result.use_tools})


def _old_guidelines(ctx: RunContext, guidelines: str, *, are_twice: bool) -> str:
    """Return the guidelines of the rounds after the first, as RAGFlow has them: none without findings."""
    if not ctx.references["chunks"]:
        return ""
    return f"{guidelines}\n{engine_prompt(ctx, 'citation_guidelines')}" if are_twice else guidelines


def _is_streaming(ctx: RunContext, params: Params) -> bool:
    return ctx.is_streaming and _streams(params)


def _stream(ctx: RunContext, params: Params, request: ChatRequest) -> AnswerStream | None:
    """Return a stream for the answer, or None to return it as a whole."""
    if not _is_streaming(ctx, params):
        return None
    return CitingStream(ctx, len(request.messages)) if has_citations(ctx, params) else AnswerStream(ctx)


async def _answer_with_citations(strategy: Callable[[AgentLoop], Awaitable[str]], run: AgentLoop) -> str:
    """Run a strategy; if its streamed answer cites nothing even though something was found, have it rewritten."""
    text = await strategy(run)
    if isinstance(run.stream, CitingStream):
        await show_with_citations(run, run.stream)
    return text


async def _without_tools(
    ctx: RunContext, params: Params, model: ChatModel, prompts: Sequence[ChatMessage] | None, guidelines: str
) -> Outputs:
    if not ctx.references["chunks"]:
        guidelines = ""
    request = await build_fitted_request(
        ctx, params, model, schema=params.json_schema, prompts=prompts, guidelines=guidelines
    )
    stream = AnswerStream(ctx, cites=has_citations(ctx, params)) if _is_streaming(ctx, params) else None
    run = AgentLoop(ctx, model, request, Toolbox(ctx, ()), 0, stream)
    text = (await ask_for_answer(ctx, model, request, stream)).text
    if stream is not None:
        await stream.finish_text()
    return await _outputs(run, params, text)


async def _outputs(run: AgentLoop, params: Params, text: str) -> Outputs:
    """Validate the answer and append links to the files that tools created."""

    async def ask_again(request: ChatRequest) -> str:
        return (await run.ask(run.with_guidelines(request), "evidence")).text

    ctx, stream = run.ctx, run.stream
    if not text.strip() and not ctx.compatibility.old_values:
        ctx.refusals += 1
        raise empty_answer_error(ctx)
    refuse_cut_sql(ctx)
    if params.requires_evidence:
        text = await require_citations(ctx, run.model, run.request, text, ask_again)
    if params.json_schema is not None:
        try:
            value = await read_structured(ctx, run.model, text, params.json_schema)
        except ComponentError:
            ctx.partial["content"] = strip_thinking(text)  # the best available output
            raise
        return Outputs.model_validate({"structured": value})
    if stream is None:
        text = keep_known_citations(ctx, params, strip_checked_thinking(ctx, text))
        return Outputs(content=text + cut_notice(ctx, params, text) + run.result.links(text))
    note_thinking(ctx, text)
    if added := cut_notice(ctx, params, text) + run.result.links(stream.text):
        stream.begin()
        await stream.write([AnswerPart(added)])
        await stream.finish_text()
    return Outputs(content=stream.answer + added if stream.answer else stream.text)


@component(
    "Agent",
    kind="model",
    params=Params,
    outputs=Outputs,
    retries=True,
    timeout_s=_limit_s,
    streams=_streams,
    output_names=structured_output_names,
    model_calls=lambda params: params.max_rounds + answer_calls(params) + 2,  # the question and the citations, too
    output_schemas=structured_output_schemas,
    lint=_lint,
    differences=schema_differences,
    rewrite=lambda params: rename_params(params, GO_NAMES),
    unused=CHAT_UNUSED | {"exception_comment"},
    tools=_tools,
    server_tools=lambda params: mcp_server_tools(params.mcp),
    requires=lambda params: params.requirements,
    prompt_texts=prompt_texts,
    allowed_tools=lambda params: params.allowed_tools,
    ask_tools=lambda params: params.ask_tools,
    tool=ToolRules("", Arguments, _as_tool),
    effects="pays",
    description="Ask a chat model that can call tools.",
    source="agent/component/agent_with_tools.py",
)
async def agent(ctx: RunContext, params: Params) -> Outputs:
    """Ask the model, run the tools that it calls, and return its answer."""
    return await _answer(ctx, params)
