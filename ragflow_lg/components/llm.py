"""LLM: asks a chat model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from ragflow_lg.chat_params import ChatParams, template_kwargs
from ragflow_lg.context import RunContext
from ragflow_lg.errors import ComponentError
from ragflow_lg.prompts import (
    append_to_last_user,
    cut_sections,
    fit,
    history_view,
    images_in,
    join_prompts,
    without_images,
)
from ragflow_lg.refs import Reference, Template
from ragflow_lg.services import ChatModel, ChatRequest
from ragflow_lg.spec import ComponentOutputs, OptionalReference, component
from ragflow_lg.structured import feedback, instructions, parse_answer, schema_of
from ragflow_lg.thinking import CLOSE, OPEN, ThinkingSplitter, without_thinking
from ragflow_lg.values import to_text

__all__ = ["llm"]

_ALIASES = {"model_id": "llm_id", "system_prompt": "sys_prompt", "user_prompt": "prompts", "visual_files": "visual_files_var"}


class Prompt(BaseModel):
    """One message of the prompt."""

    model_config = ConfigDict(frozen=True, defer_build=True, arbitrary_types_allowed=True)

    role: str = "user"
    content: Template = Template("", ())


def _as_prompts(value: Any) -> Any:
    return [{"role": "user", "content": value}] if isinstance(value, str) else value


class Params(ChatParams):
    """Parameters of LLM."""

    sys_prompt: Template = Template("", ())
    prompts: Annotated[list[Prompt], BeforeValidator(_as_prompts), Field(min_length=1, validate_default=True)] = Field(
        default_factory=lambda: cast("list[Prompt]", "{sys.query}")
    )
    message_history_window_size: Annotated[int, Field(ge=0)] = 13
    cite: bool | None = True
    visual_files_var: OptionalReference = None
    """A value whose images are shown to the model."""


class Outputs(ComponentOutputs):
    """``content``, or with a JSON schema ``structured``."""


def _rewrite(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Read the names of RAGFlow's Go port."""
    if not any(old in params and new not in params for old, new in _ALIASES.items()):
        return params
    return {(_ALIASES[k] if k in _ALIASES and _ALIASES[k] not in params else k): v for k, v in params.items()}


def _streams(params: Params) -> bool:
    return schema_of(params.outputs) is None


def _names(params: Params) -> Iterable[str]:
    return ("content", "structured", "use_tools")


@component(
    "LLM",
    kind="model",
    params=Params,
    outputs=Outputs,
    output_names=_names,
    rewrite=_rewrite,
    streams=_streams,
    retries=True,
    description="Ask a chat model; its answer can stream into a Message.",
    source="agent/component/llm.py",
)
async def llm(ctx: RunContext, params: Params) -> Outputs:
    """Ask for a structured answer, a streamed one, or a whole one."""
    model = params.model(ctx)
    request = _request(ctx, params, model)
    schema = schema_of(params.outputs)
    if schema is not None:
        return await _structured(model, request, schema, params)
    if ctx.is_streaming:
        return Outputs(content=await _stream(ctx, model, request))
    return Outputs(content=without_thinking(await model.complete(request)))


def _request(ctx: RunContext, params: Params, model: ChatModel) -> ChatRequest:
    images: list[str] = []
    system = cut_sections(_rendered(ctx, params.sys_prompt, images))
    prompts = [{"role": p.role, "content": _rendered(ctx, p.content, images)} for p in params.prompts]
    messages = join_prompts(history_view(ctx.history, params.message_history_window_size), prompts)
    if params.visual_files_var is not None:
        images += images_in(ctx.value(params.visual_files_var))
    if not any(_names_files(t) for t in (params.sys_prompt, *(p.content for p in params.prompts))):
        files = [to_text(file) for file in ctx.global_value("sys.files") or []]
        images += [file for file in files if images_in(file)]
        messages = append_to_last_user(messages, [file for file in files if not images_in(file)])
    schema = schema_of(params.outputs)
    system, messages = fit(system + (instructions(schema) if schema else ""), messages, model.context_tokens)
    if not any(m["role"] == "user" and m["content"].strip() for m in messages):
        raise ComponentError("There is nothing to ask: the prompt is empty.", node=ctx.node.id)
    return ChatRequest(
        system,
        tuple(messages),
        sampling=params.sampling(),
        thinking=params.thinking_mode(),
        images=tuple(dict.fromkeys(images)),
        template_kwargs=template_kwargs(ctx),
    )


def _rendered(ctx: RunContext, template: Template, images: list[str]) -> str:
    """Render a prompt; images in its values are collected and left out."""
    text = ""
    for segment in template.segments:
        if isinstance(segment, Reference):
            value = to_text(ctx.value(segment))
            images += images_in(value)
            text += without_images(value)
        else:
            text += segment
    return text


def _names_files(template: Template) -> bool:
    return any(reference.key == "sys.files" for reference in template.references)


async def _stream(ctx: RunContext, model: ChatModel, request: ChatRequest) -> str:
    """Show the answer as it comes; give all of it, thinking between its tags."""
    splitter, is_reasoning, answer = ThinkingSplitter(), False, ""

    async def show(text: str, is_thinking: bool) -> None:
        nonlocal is_reasoning, answer
        if is_thinking != is_reasoning:
            is_reasoning = is_thinking
            answer += OPEN if is_thinking else CLOSE
            await ctx.delta("", "start" if is_thinking else "end")
        pieces = [(text, "")] if is_thinking else list(splitter.feed(text))
        for piece, mark in pieces:
            answer += {"start": OPEN, "end": CLOSE}.get(mark, piece)
            ctx.partial["content"] = answer
            await ctx.delta(piece, mark)  # pyright: ignore[reportArgumentType] - a mark of the splitter

    async for delta in model.stream(request):
        if delta.text:
            await show(delta.text, delta.is_thinking)
    if is_reasoning:
        await show("", False)
    for piece, _ in splitter.flush():
        answer += piece
        await ctx.delta(piece)
    return answer


async def _structured(
    model: ChatModel, request: ChatRequest, schema: Mapping[str, Any], params: Params
) -> Outputs:
    """Ask until the answer fits the schema, each time saying what was wrong."""
    messages, problem = request.messages, ""
    for _ in range((params.max_retries or 0) + 1):
        answer = await model.complete(_with_messages(request, messages))
        value, problem = parse_answer(answer, schema)
        if not problem:
            return Outputs(structured=value)
        messages = (*request.messages, *feedback(answer, problem))
    raise ComponentError(f"The model's answer does not fit the schema: {problem}.")


def _with_messages(request: ChatRequest, messages: tuple[Mapping[str, str], ...]) -> ChatRequest:
    return ChatRequest(
        request.system, messages, request.sampling, request.thinking, request.images, request.template_kwargs
    )
