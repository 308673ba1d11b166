"""Message: shows text to the user."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import Field

from ragflow_lg.base.diagnostics import Finding
from ragflow_lg.base.thinking import split_thinking
from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.decorator import component
from ragflow_lg.component.spec import ComponentOutputs, ComponentParams, MessageAlternative, OneOrMany
from ragflow_lg.dsl.downloads import drop_duplicates, find_downloads, message_text
from ragflow_lg.dsl.variable_references import Template
from ragflow_lg.templates.render import find_syntax_error, has_jinja, render

if TYPE_CHECKING:
    from ragflow_lg.component.context import RunContext

__all__ = ["message"]


class Params(ComponentParams):
    """Parameters of Message."""

    content: OneOrMany[Template] = Field(min_length=1)
    """Alternative texts, one of which is shown at each visit."""
    stream: bool = True
    """Whether the text is sent piece by piece."""
    status: int | str | None = None
    """Copied into ``message_end``, for webhooks."""
    auto_play: bool | None = False
    output_format: str | None = None
    memory_ids: OneOrMany[str] = Field(default_factory=list[str])


class Outputs(ComponentOutputs):
    """What was shown."""

    content: str = ""
    downloads: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])


def _shows(params: Params) -> Iterable[MessageAlternative]:
    return tuple(MessageAlternative(text, params.stream and not has_jinja(text)) for text in params.content)


def _lint(params: Params) -> Iterable[Finding]:
    unsupported = {
        "auto_play": "The answer is not spoken.",
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
                f"The Jinja template does not work: {problem}. It is shown as it is, with its references filled in.",
            )


def _rewrite(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Read ``messages``, as the parameter was called before, as ``content``."""
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
    description="Show text to the user, piece by piece where it can.",
    source="agent/component/message.py",
)
async def message(ctx: RunContext, params: Params) -> Outputs:
    """Draw one alternative and show it."""
    drawn = ctx.alternative()
    downloads: list[dict[str, Any]] = []
    if drawn.is_live:
        content = await _show_pieces(ctx, drawn.template, downloads)
    else:
        content = await _render(ctx, drawn.template, downloads)
        await ctx.piece(0, content)
        content = _spoken(content)
    downloads = drop_duplicates(downloads)
    end: dict[str, JsonValue] = {}
    if params.status:
        end["status"] = params.status
    if downloads:
        end["downloads"] = downloads
    if any((references := ctx.references).values()):
        end["reference"] = references
    ctx.end = end
    return Outputs(content=content, downloads=downloads)


async def _show_pieces(ctx: RunContext, template: Template, downloads: list[dict[str, JsonValue]]) -> str:
    content = ""
    for index, segment in enumerate(template.segments):
        if isinstance(segment, str):
            text = segment
        else:
            value = ctx.value(segment)
            downloads += find_downloads(value)
            text = message_text(value)
        await ctx.piece(index, text)
        content += _spoken(text)
        ctx.partial["content"] = content
    return content


async def _render(ctx: RunContext, template: Template, downloads: list[dict[str, JsonValue]]) -> str:
    values: dict[str, JsonValue] = {}
    for reference in template.references:
        value = ctx.value(reference)
        found = find_downloads(value)
        downloads += found
        values[reference.text] = message_text(value) if found else value
    return await render(template, values)


def _spoken(text: str) -> str:
    """Take the tags of thinking sections out; what was thought stays in the stored text, as in RAGFlow."""
    return "".join(part.text for part in split_thinking(text))
