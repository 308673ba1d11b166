"""A node's calls to a chat model: the request, and complete, structured or streamed answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from ragflow_lg.base.errors import ComponentError, ServiceError
from ragflow_lg.base.thinking import AnswerPart, ThinkingSplitter, find_thinking_problem, strip_thinking
from ragflow_lg.base.tokens import estimate_tokens, shorten
from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.decorator import RunContext
from ragflow_lg.component.events import ModelCalled
from ragflow_lg.dsl.old_values import PieceReader, strip_thoughts
from ragflow_lg.dsl.variable_references import Template
from ragflow_lg.models.answer_checks import (
    EMPTY_TRIES,
    RepetitionGuard,
    check_end,
    cut_data_error,
    empty_answer_error,
    is_empty,
)
from ragflow_lg.models.answer_stream import AnswerSink
from ragflow_lg.models.chat_params import PromptedParams
from ragflow_lg.models.citations import strip_unknown_citations
from ragflow_lg.models.engine_prompts import engine_prompt, prompt_text
from ragflow_lg.models.prompts import (
    ChatMessage,
    PromptRenderer,
    chat_template_kwargs,
    describe_left_out,
    extract_sections,
    fit_context,
    join_prompts,
    read_history,
)
from ragflow_lg.models.structured_answer import (
    append_schema,
    build_correction,
    is_whole_json,
    read_and_check,
    read_answer,
)
from ragflow_lg.services.chat import (
    ONE_CALL,
    AnswerEnd,
    ChatAnswer,
    ChatModel,
    ChatRequest,
    ToolCall,
    count_tokens,
    estimate_usage,
)

_THINKING_ADVICE = "Raise its limit of tokens, or set thinking to disabled if the model can answer without it."
_MIN_WINDOW_TOKENS = 1_000
"""Shorter requests fit into every window, so that no server has to be asked."""
_SHARES = (0.75, 0.5)
"""Which parts of a window are tried after refusals, because tokens are only estimated."""
MAX_SYSTEM_CHARS = 30_000
MAX_MESSAGES_CHARS = 30_000
MAX_ANSWER_CHARS = 20_000
MAX_ERROR_CHARS = 2_000
MAX_REFUSED_CHARS = 500
MAX_NAMES = 100
"""How many tools, and how many calls of one answer, are reported."""


class CallReport(Struct):
    """What is reported of a model call."""

    answer: ChatAnswer = ChatAnswer("", (), ONE_CALL)
    """What has arrived of the answer. The caller sets it."""


@contextmanager
def report_call(ctx: RunContext, model: ChatModel, request: ChatRequest) -> Generator[CallReport]:
    """Report the model call in the block when it has ended, also if it failed.

    The prompts are those of the request: after references were filled in, and history was fitted into the context.
    """
    report, clock, problem = CallReport(), ctx.services.clock, ""
    created_at, began = clock.now(), clock.monotonic()
    try:
        yield report
    except BaseException as error:
        problem = str(error) or type(error).__name__
        raise
    finally:
        if ctx.sink is not None:
            details = _describe_call(ctx, model, request, report.answer, problem)
            times = (created_at, clock.monotonic() - began)
            ctx.sink.put(
                ModelCalled(ctx.owner, ctx.node.id, ctx.visit, ctx.place, *times, report.answer.usage, details)
            )


def _describe_call(
    ctx: RunContext, model: ChatModel, request: ChatRequest, answer: ChatAnswer, error: str
) -> dict[str, JsonValue]:
    view = ctx.redacted_view
    llm_id = getattr(ctx.node.params, "llm_id", "") or ""
    calls: list[Any] = [{"name": call.name, "arguments": call.arguments} for call in answer.calls[:MAX_NAMES]]
    # If the messages are too long, the oldest ones are cut.
    messages = cast("list[JsonValue]", view.value(request.messages[::-1], MAX_MESSAGES_CHARS))[::-1]
    return {
        "model": view.text(str(getattr(model, "name", "") or llm_id or "default"), 200),
        "system": view.text(request.system, MAX_SYSTEM_CHARS),
        "messages": messages,
        "images": len(request.images),
        "tools": [view.text(tool.name, 200) for tool in request.tools[:MAX_NAMES]],
        "sampling": dict(request.sampling),
        "answer": view.text(answer.text, MAX_ANSWER_CHARS),
        "calls": view.value(calls),
        "finish_reason": answer.end,
        "error": view.text(error, MAX_ERROR_CHARS),
    }


def build_request(
    ctx: RunContext,
    params: PromptedParams,
    model: ChatModel,
    *,
    schema: dict[str, Any] | None = None,
    prompts: Sequence[ChatMessage] | None = None,
    guidelines: str = "",
    reserved_tokens: int = 0,
) -> ChatRequest:
    """Render the prompts from the params, and fit them into the model's context.

    ``prompts`` replace the prompts in the params; ``guidelines`` are appended to the system prompt; ``reserved_tokens``
    tokens of the context are not used.
    """
    renderer = PromptRenderer(ctx)
    system = renderer.text(_split_sections(params.sys_prompt)[0])
    if prompts is None:
        prompts = [{"role": p.role, "content": renderer.text(p.content)} for p in params.prompts]
    messages_to_send = renderer.attach_files((params.sys_prompt, *(p.content for p in params.prompts)), list(prompts))
    if params.visual_files_var is not None:
        renderer.extract_images(ctx.value(params.visual_files_var))
    if guidelines:
        system = join_guidelines(ctx, system, guidelines)
    is_native = schema is not None and model.has_schemas
    is_tried = schema is not None and bool(getattr(model, "tries_schemas", False))
    if schema is not None and not is_native:
        system = append_schema(system, schema, prompt_text(ctx, "structured_output"))
    earlier = read_history(ctx.history, params.message_history_window_size)[:-1]
    reserved = reserved_tokens + sum(estimate_tokens(message["content"]) for message in ctx.feedback)
    whole = (system, join_prompts(earlier, messages_to_send))
    system, messages = fitted = fit_context(*whole, model.context_tokens - reserved)
    if left_out := describe_left_out(whole, fitted, model.context_tokens):
        ctx.notice(left_out)
    if renderer.images and not model.has_vision:
        ctx.notice(f"The model accepts no images, so {len(renderer.images)} were left out.")
    return ChatRequest(
        system,
        (*messages, *ctx.feedback),
        params.sampling,
        params.thinking_mode,
        tuple(renderer.images) if model.has_vision else (),
        chat_template_kwargs(ctx),
        schema=schema if is_native or is_tried else None,
    )


async def build_fitted_request(
    ctx: RunContext, params: PromptedParams, model: ChatModel, **options: Any
) -> ChatRequest:
    """Build a request. The model's server is first asked what it takes, if a request is long or has images."""
    learn = getattr(model, "learn", None)
    known, noticed = (model.context_tokens, model.has_vision), len(ctx.notices)
    request = build_request(ctx, params, model, **options)
    is_long = estimate_usage(request, "").prompt_tokens >= _MIN_WINDOW_TOKENS
    if learn is None or not (is_long or request.images):
        return request
    await learn(*["context_tokens"] * is_long, *["has_vision"] * bool(request.images))
    if (model.context_tokens, model.has_vision) == known:
        return request
    del ctx.notices[noticed:]
    return build_request(ctx, params, model, **options)


def read_sections(ctx: RunContext, params: PromptedParams) -> dict[str, str]:
    """Return the sections of the system prompt that replace the engine's prompts, by name in capitals."""
    return {name: PromptRenderer(ctx).text(section) for name, section in _split_sections(params.sys_prompt)[1].items()}


@lru_cache(maxsize=256)
def _split_sections(system: Template) -> tuple[Template, Mapping[str, Template]]:
    """Separate the sections from a system prompt before its references are filled in.

    Values therefore cannot inject sections.
    """
    marks = [s.replace("\0", "") if isinstance(s, str) else f"\0{at}\0" for at, s in enumerate(system.segments)]
    rest, sections = extract_sections("".join(marks))

    def whole(text: str) -> Template:
        pieces = enumerate(text.split("\0"))
        return Template(text, tuple(system.segments[int(piece)] if at % 2 else piece for at, piece in pieces))

    return whole(rest), {name: whole(text) for name, text in sections.items()}


def find_guidelines(ctx: RunContext, params: PromptedParams) -> str:
    """Return the citation guidelines for the model, used once there are sources; ``""`` if citations are disabled."""
    if not params.cite:
        return ""
    section = read_sections(ctx, params).get("CITATION_GUIDELINES")
    return engine_prompt(ctx, "citation_guidelines") if section is None else section


def join_guidelines(ctx: RunContext, system: str, guidelines: str) -> str:
    """Return a system prompt with citation guidelines."""
    return f"{system}{guidelines}" if ctx.compatibility.old_values else f"{system}\n\n{guidelines}".lstrip()


def has_citations(ctx: RunContext, params: PromptedParams) -> bool:
    """Return whether ``[ID:n]`` is a citation: citations are enabled, and the canvas has search tools or sources."""
    searches = any(n.tools or (n.spec.tool and n.spec.kind == "plain") for n in ctx.plan.nodes.values())
    return bool(params.cite) and (searches or bool(ctx.references["chunks"]))


def keep_known_citations(ctx: RunContext, params: PromptedParams, answer: str) -> str:
    """Return an answer without unknown citations."""
    if ctx.compatibility.old_values or not has_citations(ctx, params):
        return answer
    known = ctx.references["chunks"]
    return strip_unknown_citations(answer, lambda number: number in known)


def note_thinking(ctx: RunContext, answer: str) -> None:
    """Report that a streamed answer is only thinking, which readers do not see as an answer."""
    if problem := find_thinking_problem(answer):
        ctx.notice(f"{problem}. {_THINKING_ADVICE}")


def strip_checked_thinking(ctx: RunContext, answer: str) -> str:
    """Return a whole answer without its thinking.

    Raises:
        ComponentError: if nothing is left.
    """
    if ctx.compatibility.old_values:
        return strip_thoughts(answer)
    if problem := find_thinking_problem(answer):
        raise ComponentError(f"{problem}. {_THINKING_ADVICE}")
    return strip_thinking(answer)


async def ask(ctx: RunContext, model: ChatModel, request: ChatRequest, show: AnswerSink | None = None) -> ChatAnswer:
    """Call the model once, and record its usage.

    If ``show`` is set, the answer is streamed to it, and the returned text is the complete text, including tags.

    Raises:
        ServiceError: if the call fails.
    """
    with report_call(ctx, model, request) as report:
        answer = await _ask(ctx, model, request, show, report)
        check_end(ctx, answer)
    if ctx.budget.is_limited:
        ctx.budget.charge(count_tokens(request, answer))
    return answer


async def ask_for_answer(
    ctx: RunContext, model: ChatModel, request: ChatRequest, show: AnswerSink | None = None
) -> ChatAnswer:
    """Call the model as `ask` does, and once more if its answer is empty.

    A request that is refused as too long is cut and sent again.

    Raises:
        ServiceError: if a call fails, or the answer stays empty.
    """
    for _ in range(EMPTY_TRIES):
        request, answer = await _ask_shorter(ctx, model, request, show)
        if not is_empty(answer) or ctx.compatibility.old_values:
            return answer
    raise empty_answer_error(ctx)


async def _ask_shorter(
    ctx: RunContext, model: ChatModel, request: ChatRequest, show: AnswerSink | None
) -> tuple[ChatRequest, ChatAnswer]:
    """Call the model; if it refuses the length, with ever shorter requests. Return the last one and its answer."""
    window = model.context_tokens
    for share in _SHARES:
        try:
            return request, await ask(ctx, model, request, show)
        except ServiceError as error:
            # The refusal may have told the window. Otherwise the estimate of tokens was too low.
            room = model.context_tokens if model.context_tokens < window else int(window * share)
            window = model.context_tokens
            shorter = _fit_request(ctx, request, room, window) if error.refused == "context_tokens" else request
            if shorter == request:
                raise
            request = shorter
    return request, await ask(ctx, model, request, show)


def _fit_request(ctx: RunContext, request: ChatRequest, room: int, context_tokens: int) -> ChatRequest:
    """Return a request without tools that fits into a part of a window."""
    whole = (request.system, cast("tuple[ChatMessage, ...]", request.messages))
    system, messages = fitted = fit_context(*whole, room)
    if left_out := describe_left_out(whole, fitted, context_tokens):
        ctx.notice(left_out)
    return replace(request, system=system, messages=tuple(messages))


async def _show_parts(show: AnswerSink, texts: list[str], parts: Iterable[AnswerPart]) -> None:
    """Show parts of an answer, and add them to its texts."""
    batch = list(parts)
    texts.extend(part.source for part in batch)
    await show.write(batch)


async def _ask(
    ctx: RunContext, model: ChatModel, request: ChatRequest, show: AnswerSink | None, report: CallReport
) -> ChatAnswer:
    if show is None:
        try:
            answer = await model.complete(request)
        except asyncio.CancelledError:
            report.answer = ChatAnswer("", (), estimate_usage(request, ""))
            ctx.count(report.answer.usage)
            raise
        ctx.count(answer.usage)
        report.answer = answer
        RepetitionGuard().feed(answer.text)
        return answer
    show.begin()
    texts: list[str] = []
    calls: tuple[ToolCall, ...] = ()
    usage = ONE_CALL
    end: AnswerEnd = ""
    guard = RepetitionGuard()
    read_piece = PieceReader().read if ctx.compatibility.old_values else str
    splitter = ThinkingSplitter()
    stream = model.stream(request)
    try:
        async for delta in stream:
            if delta.text:
                guard.feed(delta.text)
                text = read_piece(delta.text)
                await _show_parts(show, texts, splitter.feed(text, is_reasoning=delta.is_thinking))
            calls = delta.calls or calls
            usage = delta.usage or usage
            end = delta.end or end
        await _show_parts(show, texts, splitter.finish())
    except asyncio.CancelledError:  # the provider reports its count at the end
        usage = usage if usage.prompt_tokens else estimate_usage(request, "".join(texts))
        raise
    finally:
        ctx.count(usage)
        report.answer = ChatAnswer("".join(texts), calls, usage, end)
        ctx.partial["content"] = show.text
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()
    return report.answer


async def read_structured(ctx: RunContext, model: ChatModel, answer: str, schema: dict[str, Any]) -> JsonValue:
    """Parse and validate a structured answer. One that was cut off is not repaired.

    The problems are included in the next attempt's request. RAGFlow accepts any answer, as does this function if
    ``compatibility.unchecked_answers`` is set.

    Raises:
        ComponentError: if the answer does not match; ``ctx.feedback`` then describes the problems for the next
            attempt.
    """
    if ctx.compatibility.unchecked_answers:
        return await ctx.services.workers.run(read_answer, answer)
    if ctx.finish_reason == "length" and not is_whole_json(answer):
        _refuse(ctx, answer)
        raise cut_data_error()
    if problem := find_thinking_problem(answer):
        _refuse(ctx, answer)
        raise ComponentError(f"{problem}. {_THINKING_ADVICE}")
    value, problems = await ctx.services.workers.run(read_and_check, answer, schema)
    if problems:
        _refuse(ctx, answer)
        shown_answer = shorten(strip_thinking(answer), model.context_tokens // 4)
        ctx.feedback = [
            {"role": "assistant", "content": shown_answer},
            {"role": "user", "content": build_correction(problems, prompt_text(ctx, "structured_output_correction"))},
        ]
        raise ComponentError("The model's answer does not match the schema: " + " ".join(problems))
    return value


def _refuse(ctx: RunContext, answer: str) -> None:
    """Count an answer that is no data, and say what the model has written."""
    ctx.refusals += 1
    ctx.notice(f"The model's answer, which is not used: {' '.join(answer.split())[:MAX_REFUSED_CHARS]}")
