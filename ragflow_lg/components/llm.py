"""LLM: asks a chat model."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from ragflow_lg.chat_params import ChatParams, WholeNumber, renamed
from ragflow_lg.diagnostics import Finding
from ragflow_lg.errors import ComponentError, ServiceError
from ragflow_lg.prompts import (
    ChatMessage,
    Collected,
    chat_template_kwargs,
    cut_overrides,
    estimate_tokens,
    fit,
    history_view,
    join_prompts,
    shorten,
)
from ragflow_lg.refs import Template, parse_template
from ragflow_lg.services import ChatModel, ChatRequest
from ragflow_lg.spec import ComponentOutputs, OptionalReference, component
from ragflow_lg.structured_answer import correction, problems_of, read_answer, schema_of, schema_problem, with_schema
from ragflow_lg.thinking import Part, ThinkingSplitter, without_thinking
from ragflow_lg.values import MAX_TEXT_CHARS, JsonValue

if TYPE_CHECKING:
    from ragflow_lg.context import RunContext

__all__ = ["llm"]

_GO_NAMES = {
    "model_id": "llm_id",
    "system_prompt": "sys_prompt",
    "user_prompt": "prompts",
    "visual_files": "visual_files_var",
}
"""Names that RAGFlow's Go port uses."""


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _as_prompts(value: Any) -> Any:
    """A text is one user message, a map one message."""
    if isinstance(value, str) and value:
        return [{"role": "user", "content": value}]
    return [value] if isinstance(value, Mapping) else value or []


class Prompt(BaseModel):
    """One message behind the history."""

    model_config = ConfigDict(frozen=True, defer_build=True, arbitrary_types_allowed=True)

    role: Annotated[Literal["user", "assistant"], BeforeValidator(_lower)] = "user"
    content: Template


def _ask_query() -> list[Prompt]:
    return [Prompt(content=parse_template("{sys.query}"))]


class Params(ChatParams):
    """Parameters of LLM."""

    sys_prompt: Template = Template("", ())
    prompts: Annotated[list[Prompt], BeforeValidator(_as_prompts)] = Field(default_factory=_ask_query, min_length=1)
    """Messages behind the history; a text stands for one user message."""
    message_history_window_size: WholeNumber = 13
    """The last 2N-1 entries of the history before this turn go along; 0 for none."""
    visual_files_var: OptionalReference = None
    """Its images go along."""
    cite: bool | None = True
    """Takes effect with retrieved chunks only."""

    @field_validator("temperature", "top_p", "presence_penalty", "frequency_penalty")
    @classmethod
    def _from_0_to_1(cls, value: float) -> float:
        if not 0 <= value <= 1:
            raise ValueError("should be from 0 to 1")
        return value

    @property
    def json_schema(self) -> dict[str, Any] | None:
        """The schema of the answer, if it is to be structured."""
        return schema_of(self.outputs)


class Outputs(ComponentOutputs):
    """The answer: ``content``, or ``structured`` where a schema is declared."""

    content: str | None = None


def _rewrite(params: Mapping[str, Any]) -> Mapping[str, Any]:
    return renamed(params, _GO_NAMES)


def _streams(params: Params) -> bool:
    return params.json_schema is None


def _output_names(params: Params) -> Iterable[str]:
    return () if params.json_schema is None else ("structured",)


def _lint(params: Params) -> Iterable[Finding]:
    if params.json_schema and (problem := schema_problem(params.json_schema)):
        yield Finding(
            "params-invalid",
            "warning",
            ("outputs", "structured"),
            f"This is not a valid JSON schema: {problem}.",
            "The model is shown it as it is; of its answer only whether it is an object is checked.",
        )


@component(
    "LLM",
    kind="model",
    params=Params,
    outputs=Outputs,
    retries=True,
    streams=_streams,
    output_names=_output_names,
    lint=_lint,
    rewrite=_rewrite,
    description="Ask a chat model.",
    source="agent/component/llm.py",
)
async def llm(ctx: RunContext, params: Params) -> Outputs:
    """Ask once: for a structured answer, for one that a Message shows as it comes, or for a whole one."""
    model = ctx.services.models.model(params.llm_id or "")
    schema = params.json_schema
    request = _request(ctx, params, model, schema)
    if schema is not None:
        return await _ask_structured(ctx, model, request, schema)
    if ctx.is_streaming:
        return Outputs(content=await _stream(ctx, model, request))
    return Outputs(content=without_thinking(await model.complete(request)))


def _request(ctx: RunContext, params: Params, model: ChatModel, schema: dict[str, Any] | None) -> ChatRequest:
    collected = Collected(ctx)
    system, _ = cut_overrides(collected.text(params.sys_prompt))
    prompts: list[ChatMessage] = [{"role": p.role, "content": collected.text(p.content)} for p in params.prompts]
    prompts = collected.attach_files((params.sys_prompt, *(p.content for p in params.prompts)), prompts)
    if params.visual_files_var is not None:
        collected.take(ctx.value(params.visual_files_var))
    if schema is not None:
        system = with_schema(system, schema)
    earlier = history_view(ctx.history, params.message_history_window_size)[:-1]
    taken = sum(estimate_tokens(message["content"]) for message in ctx.feedback)
    system, messages = fit(system, join_prompts(earlier, prompts), model.context_tokens - taken)
    return ChatRequest(
        system,
        (*messages, *ctx.feedback),
        params.sampling,
        params.thinking_mode,
        tuple(collected.images) if model.has_vision else (),
        chat_template_kwargs(ctx),
    )


async def _ask_structured(ctx: RunContext, model: ChatModel, request: ChatRequest, schema: dict[str, Any]) -> Outputs:
    """Ask and check; what is wrong with the answer goes along when the node asks again.

    RAGFlow asks the same again and takes whatever comes.
    """
    answer = await model.complete(request)
    value, problems = await ctx.in_thread(_read, answer, schema)
    if problems:
        said = shorten(without_thinking(answer), model.context_tokens // 4)
        ctx.feedback = [{"role": "assistant", "content": said}, {"role": "user", "content": correction(problems)}]
        raise ComponentError("The model's answer does not match the schema: " + " ".join(problems))
    return Outputs(**{"structured": value})


def _read(answer: str, schema: dict[str, Any]) -> tuple[JsonValue, list[str]]:
    value = read_answer(answer)
    return value, problems_of(value, schema)


async def _stream(ctx: RunContext, model: ChatModel, request: ChatRequest) -> str:
    """Show the answer as it comes; give it with its tags."""
    said: list[str] = []
    chars = 0
    splitter = ThinkingSplitter()

    async def show(parts: Iterable[Part]) -> None:
        nonlocal chars
        for part in parts:
            chars += len(part.source)
            if chars > MAX_TEXT_CHARS:
                raise ServiceError(f"The model's answer has more than {MAX_TEXT_CHARS:,} characters.")
            said.append(part.source)
            await ctx.delta(part.text, part.mark)

    stream = model.stream(request)
    try:
        async for delta in stream:
            await show(splitter.feed(delta.text, is_reasoning=delta.is_thinking))
        await show(splitter.finish())
    finally:
        ctx.partial["content"] = content = "".join(said)
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()
    return content
