"""A node's calls of a chat model: what is asked, and the answer, whole, structured or shown as it comes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from ragflow_lg.base.errors import ComponentError, ServiceError
from ragflow_lg.base.thinking import AnswerPart, ThinkingSplitter, split_thinking, strip_thinking
from ragflow_lg.base.tokens import estimate_tokens, shorten
from ragflow_lg.base.values import MAX_TEXT_CHARS, JsonValue
from ragflow_lg.dsl.variable_references import Template
from ragflow_lg.models.chat_params import PromptedParams
from ragflow_lg.models.citations import CITATION_GUIDELINES, CitationFilter, strip_unknown_citations
from ragflow_lg.models.prompts import (
    ChatMessage,
    PromptRenderer,
    chat_template_kwargs,
    extract_sections,
    fit_context,
    join_prompts,
    read_history,
)
from ragflow_lg.models.structured_answer import append_schema, build_correction, find_problems, read_answer
from ragflow_lg.services.chat import ONE_CALL, ChatAnswer, ChatModel, ChatRequest, ToolCall
from ragflow_lg.services.token_budget import count_tokens

if TYPE_CHECKING:
    from ragflow_lg.component.context import RunContext

__all__ = [
    "AnswerSink",
    "AnswerStream",
    "ask",
    "find_guidelines",
    "has_citations",
    "read_structured",
    "build_request",
    "read_sections",
    "keep_known_citations",
]


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
    """Render what the params ask for, and fit it into the model's context.

    ``prompts`` take the place of those in the params; ``guidelines`` stand behind the system prompt;
    ``reserved_tokens`` of the context are left free.
    """
    collected = PromptRenderer(ctx)
    system = collected.text(_cut(params.sys_prompt)[0])
    if prompts is None:
        prompts = [{"role": p.role, "content": collected.text(p.content)} for p in params.prompts]
    asked = collected.attach_files((params.sys_prompt, *(p.content for p in params.prompts)), list(prompts))
    if params.visual_files_var is not None:
        collected.take(ctx.value(params.visual_files_var))
    if guidelines:
        system = f"{system}\n\n{guidelines}".lstrip()
    is_native = schema is not None and model.has_schemas
    if schema is not None and not is_native:
        system = append_schema(system, schema)
    earlier = read_history(ctx.history, params.message_history_window_size)[:-1]
    taken = reserved_tokens + sum(estimate_tokens(message["content"]) for message in ctx.feedback)
    system, messages = fit_context(system, join_prompts(earlier, asked), model.context_tokens - taken)
    return ChatRequest(
        system,
        (*messages, *ctx.feedback),
        params.sampling,
        params.thinking_mode,
        tuple(collected.images) if model.has_vision else (),
        chat_template_kwargs(ctx),
        schema=schema if is_native else None,
    )


def read_sections(ctx: RunContext, params: PromptedParams) -> dict[str, str]:
    """Give the sections of the system prompt that take the place of prompts of the engine, by name in capitals."""
    return {name: PromptRenderer(ctx).text(section) for name, section in _cut(params.sys_prompt)[1].items()}


@lru_cache(maxsize=256)
def _cut(system: Template) -> tuple[Template, Mapping[str, Template]]:
    """Cut a system prompt before its references are filled in: what was found or said must not bring sections along."""
    marks = [s.replace("\0", "") if isinstance(s, str) else f"\0{at}\0" for at, s in enumerate(system.segments)]
    rest, sections = extract_sections("".join(marks))

    def whole(text: str) -> Template:
        pieces = enumerate(text.split("\0"))
        return Template(text, tuple(system.segments[int(piece)] if at % 2 else piece for at, piece in pieces))

    return whole(rest), {name: whole(text) for name, text in sections.items()}


def find_guidelines(ctx: RunContext, params: PromptedParams) -> str:
    """Give what the model is to be told about citations once there is something to cite; ``""`` where it is not."""
    return read_sections(ctx, params).get("CITATION_GUIDELINES", CITATION_GUIDELINES) if params.cite else ""


def has_citations(ctx: RunContext, params: PromptedParams) -> bool:
    """Whether ``[ID:n]`` in an answer is a citation: it is to cite, and the canvas searches or has found something."""
    searches = any(n.tools or (n.spec.tool and n.spec.kind == "plain") for n in ctx.plan.nodes.values())
    return bool(params.cite) and (searches or bool(ctx.references["chunks"]))


def keep_known_citations(ctx: RunContext, params: PromptedParams, answer: str) -> str:
    """Give an answer without the citations that lead nowhere."""
    if not has_citations(ctx, params):
        return answer
    known = ctx.references["chunks"]
    return strip_unknown_citations(answer, lambda number: number in known)


class AnswerSink(Protocol):
    """Takes the answers of a model as they come, to show of them what is to be shown."""

    @property
    def text(self) -> str:
        """What the node has shown so far, with tags."""
        ...

    def begin(self) -> None:
        """Take up another answer."""
        ...

    async def write(self, parts: Iterable[AnswerPart]) -> None:
        """Take parts of the answer."""
        ...

    async def replay(self, text: str) -> None:
        """Take a whole answer, with tags, that was given before a crash."""
        ...


class AnswerStream:
    """Shows an answer as it comes, through the Message that waits for it. ``text`` is what was said, with tags.

    With ``cites`` citations that lead nowhere are taken out.
    """

    def __init__(self, ctx: RunContext, *, cites: bool = False) -> None:
        self._ctx = ctx
        self._citations = CitationFilter(lambda number: number in ctx.references["chunks"]) if cites else None
        self._said: list[str] = []
        self._chars = 0
        self._is_thinking = False
        self._model_thinks = False

    @property
    def text(self) -> str:
        """What has been shown so far."""
        return "".join(self._said)

    async def write_parts(self, parts: Iterable[AnswerPart]) -> None:
        """Show parts of an answer."""
        for part in parts:
            self._chars += len(part.source)
            if self._chars > MAX_TEXT_CHARS:
                raise ServiceError(f"The model's answer has more than {MAX_TEXT_CHARS:,} characters.")
            if part.mark:
                self._is_thinking = part.mark == "start"
            self._said.append(part.source)
            await self._ctx.delta(part.text, part.mark)

    async def write(self, parts: Iterable[AnswerPart]) -> None:
        """Show parts of one answer of the model; a thought of its own goes on with one of the engine before it."""
        for part in parts:
            if part.mark:
                await self.finish_text()
                self._model_thinks = part.mark == "start"
                if self._model_thinks != self._is_thinking:
                    await self.write_parts([part])
            elif self._model_thinks:
                await self.write_parts([part])
            else:
                await self.write_answer_text(part)

    async def write_answer_text(self, part: AnswerPart) -> None:
        """Show a piece of the answer itself."""
        await self.end_thought()
        shown = part if self._citations is None else AnswerPart(self._citations.feed(part.text))
        if shown.text:
            await self.write_parts([shown])

    async def finish_text(self) -> None:
        """Show what was held back of a text that ends here."""
        if self._citations is not None and (held := self._citations.finish()):
            await self.write_parts([AnswerPart(held)])

    async def replay(self, text: str) -> None:
        """Show an answer, with tags, that was shown before a crash."""
        self.begin()
        await self.write(split_thinking(text))

    def begin(self) -> None:
        """Take up another answer of the model, which begins with text until it says otherwise."""
        self._model_thinks = False

    async def write_thought(self, text: str) -> None:
        """Show a thought of the engine's own; one behind another in the same section."""
        await self.finish_text()
        if not self._is_thinking:
            await self.write_parts([AnswerPart("", "start")])
        await self.write_parts([AnswerPart(text)])

    async def end_thought(self) -> None:
        """Close the thinking section."""
        if self._is_thinking:
            await self.write_parts([AnswerPart("", "end")])


async def ask(ctx: RunContext, model: ChatModel, request: ChatRequest, show: AnswerSink | None = None) -> ChatAnswer:
    """Call the model once, and count it. With ``show`` its answer is shown; its text is then what was said, with tags.

    Raises:
        ServiceError: if the call fails.
    """
    if show is None:
        answer = await model.complete(request)
        ctx.count(answer.usage)
        return _charged(ctx, request, answer)
    show.begin()
    said: list[str] = []
    calls: tuple[ToolCall, ...] = ()
    usage = ONE_CALL
    splitter = ThinkingSplitter()

    async def pass_on(parts: Iterable[AnswerPart]) -> None:
        shown = list(parts)
        said.extend(part.source for part in shown)
        await show.write(shown)

    stream = model.stream(request)
    try:
        async for delta in stream:
            if delta.text:
                await pass_on(splitter.feed(delta.text, is_reasoning=delta.is_thinking))
            calls = delta.calls or calls
            usage = delta.usage or usage
        await pass_on(splitter.finish())
    finally:
        ctx.count(usage)
        ctx.partial["content"] = show.text
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()
    return _charged(ctx, request, ChatAnswer("".join(said), calls, usage))


def _charged(ctx: RunContext, request: ChatRequest, answer: ChatAnswer) -> ChatAnswer:
    if ctx.budget.is_limited:
        ctx.budget.charge(count_tokens(request, answer))
    return answer


async def read_structured(
    ctx: RunContext, model: ChatModel, answer: str, schema: dict[str, Any]
) -> dict[str, JsonValue]:
    """Read an answer that should match a schema.

    What is wrong with it goes along when the node asks again. RAGFlow asks the same again and takes whatever comes.

    Raises:
        ComponentError: if it does not; ``ctx.feedback`` then tells the next attempt what is wrong.
    """
    value, problems = await ctx.run_in_thread(_read, answer, schema)
    if problems:
        ctx.refusals += 1
        said = shorten(strip_thinking(answer), model.context_tokens // 4)
        ctx.feedback = [{"role": "assistant", "content": said}, {"role": "user", "content": build_correction(problems)}]
        raise ComponentError("The model's answer does not match the schema: " + " ".join(problems))
    return value


def _read(answer: str, schema: dict[str, Any]) -> tuple[JsonValue, list[str]]:
    value = read_answer(answer)
    return value, find_problems(value, schema)
