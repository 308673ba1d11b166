"""Message: show text to the user."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from pydantic import Field

from ragflow_lg.base.diagnostics import Finding
from ragflow_lg.base.errors import ComponentError
from ragflow_lg.base.thinking import split_thinking
from ragflow_lg.base.values import MAX_TEXT_CHARS, JsonValue
from ragflow_lg.component.decorator import component
from ragflow_lg.component.spec import ComponentOutputs, ComponentParams, MessageAlternative, OneOrMany
from ragflow_lg.dsl.downloads import drop_duplicates, show_value
from ragflow_lg.dsl.variable_references import Reference, Template
from ragflow_lg.templates.render import find_syntax_error, has_jinja, render

if TYPE_CHECKING:
    from ragflow_lg.component.context import RunContext


class Params(ComponentParams):
    """Parameters of Message."""

    content: OneOrMany[Template] = Field(min_length=1)
    """Alternative texts; each visit shows one of them."""
    stream: bool = True
    """Whether the text is streamed."""
    status: int | str | None = None
    """Copied into ``message_end``, for webhooks."""
    auto_play: bool | None = False
    output_format: str | None = None
    memory_ids: OneOrMany[str] = Field(default_factory=list[str])


class Outputs(ComponentOutputs):
    """The text and the files that were shown."""

    declared_by_default = frozenset({"content", "downloads"})

    content: str = ""
    downloads: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])


def _shows(params: Params) -> Iterable[MessageAlternative]:
    return tuple(MessageAlternative(text, params.stream and not has_jinja(text)) for text in params.content)


def _lint(params: Params) -> Iterable[Finding]:
    unsupported = {
        "auto_play": "The answer is not converted to speech.",
        "output_format": "The answer is not converted to a file.",
        "memory_ids": "The answer is not written to a memory.",
    }
    for name, effect in unsupported.items():
        if getattr(params, name):
            yield Finding("params-unsupported", "warning", (name,), f"{name} has no effect in this version. {effect}")
    for index, text in enumerate(params.content):
        if has_jinja(text) and (problem := find_syntax_error(text)):
            yield Finding(
                "template-invalid",
                "warning",
                ("content", index),
                f"The Jinja template is invalid: {problem}. It is shown unrendered, with its references filled in.",
            )


def _rewrite(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Read ``messages``, the former name of ``content``."""
    if not params.get("messages") or params.get("content"):
        return params
    return {**{key: value for key, value in params.items() if key != "messages"}, "content": params["messages"]}


@component(
    "Message",
    kind="message",
    params=Params,
    outputs=Outputs,
    shows=_shows,
    rewrite=_rewrite,
    lint=_lint,
    description="Show text to the user, streamed if possible.",
    source="agent/component/message.py",
)
async def message(ctx: RunContext, params: Params) -> Outputs:
    """Choose one alternative and show it."""
    alternative = ctx.alternative()
    downloads: list[dict[str, Any]] = []
    if alternative.is_live:
        content = await _show_pieces(ctx, alternative.template, downloads)
    else:
        content = await _render(ctx, alternative.template, downloads)
        await ctx.piece(0, content)
        content = _strip_tags(content)
    downloads = drop_duplicates(downloads)
    end: dict[str, JsonValue] = {}
    if params.status:
        end["status"] = params.status
    if downloads:
        end["downloads"] = [*downloads]
    if any((references := ctx.references).values()):
        end["reference"] = cast("JsonValue", references)
    ctx.end = end
    return Outputs(content=content, downloads=downloads)


async def _show_pieces(ctx: RunContext, template: Template, downloads: list[dict[str, JsonValue]]) -> str:
    contents: list[str] = []
    texts: dict[str, str] = {}
    size = 0
    try:
        for index, (segment, model) in enumerate(ctx.message.segments(template)):
            if isinstance(segment, str):
                text = segment
            elif segment.text in texts:
                text = texts[segment.text]
            else:
                text = texts[segment.text] = _show(ctx, segment, downloads, is_answer=model is not None)
            size += len(text)
            if size > MAX_TEXT_CHARS:
                raise ComponentError(f"The text would exceed {MAX_TEXT_CHARS:,} characters.", node=ctx.node.id)
            await ctx.piece(index, text, model)
            contents.append(_strip_tags(text))
    finally:
        if contents:
            ctx.partial["content"] = "".join(contents)
    return "".join(contents)


def _show(ctx: RunContext, segment: Reference, downloads: list[dict[str, JsonValue]], *, is_answer: bool) -> str:
    """Return the text of a value or of a model's answer, and collect its downloads."""
    if is_answer:
        text = ctx.answer(segment)
    else:
        shown = show_value(ctx.peek(segment), ctx.parse_json)
        downloads += shown.downloads
        text = ctx.charge(shown.text)
    ctx.record(segment, text)
    return text


async def _render(ctx: RunContext, template: Template, downloads: list[dict[str, JsonValue]]) -> str:
    values: dict[str, JsonValue] = {}
    for reference in template.references:
        if reference.text not in values:
            value = ctx.peek(reference)
            shown = show_value(value, ctx.parse_json)
            ctx.record(reference, ctx.charge(shown.text))
            downloads += shown.downloads
            is_text = bool(shown.downloads) or ctx.compatibility.jinja_text
            values[reference.text] = shown.text if is_text else value
    return await render(template, values, ctx.services.workers)


def _strip_tags(text: str) -> str:
    """Remove the tags of thinking sections; their text stays in the stored answer, as in RAGFlow."""
    return "".join(part.text for part in split_thinking(text))
