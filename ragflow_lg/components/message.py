"""Message: show text to the user."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, cast

from pydantic import Field

from ragflow_lg.base.diagnostics import Finding
from ragflow_lg.base.errors import ComponentError, DatabaseError, RequestError, ServiceError, SettingsError
from ragflow_lg.base.local_paths import local_path
from ragflow_lg.base.thinking import strip_tags
from ragflow_lg.base.values import MAX_TEXT_CHARS, JsonValue, to_text
from ragflow_lg.component.decorator import RunContext, component
from ragflow_lg.component.memory_user import memory_user
from ragflow_lg.component.report_files import EXTENSIONS, strip_thinking, write_report_file
from ragflow_lg.component.spec import (
    ComponentOutputs,
    ComponentParams,
    MessageAlternative,
    OneOrMany,
    Requirement,
    TemplateOrValue,
)
from ragflow_lg.dsl.downloads import drop_duplicates, show_value
from ragflow_lg.dsl.templates.render import find_syntax_error, has_jinja, render
from ragflow_lg.dsl.variable_references import Reference, Template
from ragflow_lg.models.chat_params import rename_params
from ragflow_lg.services.memories import MAX_TEXT_CHARS as MAX_REMEMBERED_CHARS
from ragflow_lg.services.memories import Exchange, Memories
from ragflow_lg.services.reports import ReportFormat, ReportRequest

logger = logging.getLogger(__name__)

MEMORY_TIMEOUT_S = 10.0
"""How long storing an answer in memories may take. Extraction goes on afterwards."""


class Params(ComponentParams):
    """Parameters of Message."""

    content: OneOrMany[Template] = Field(min_length=1)
    """Alternative texts; each visit shows one of them."""
    stream: bool = True
    """Whether the text is streamed."""
    status: int | str | None = None
    """Copied into ``message_end``, for webhooks."""
    auto_play: bool | None = False
    """Whether the text is spoken while it streams, if the server has a model for that."""
    tts_id: str | None = ""
    """The model that speaks, as in the settings (``[speech.ID]``); the first one if it is blank."""
    output_format: str | None = Field(default=None, examples=["pdf", "docx", "html", "markdown", "xlsx"])
    """Also offers the text as a file for download. Formats that do not exist count as ``markdown``."""
    memory_ids: OneOrMany[str] = Field(default_factory=list[str])
    """Memories that keep the question and the text, by the ids of ``[memories.ID]``."""
    user_id: TemplateOrValue = None
    """Whose memory it is; ``sys.user_id`` if it is blank."""


class Outputs(ComponentOutputs):
    """The text and the files that were shown."""

    declared_by_default = frozenset({"content", "downloads"})

    content: str = ""
    downloads: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])


FILE_FORMATS = frozenset({"markdown", "html", "pdf", "docx", "xlsx"})
"""The values of ``output_format`` in RAGFlow."""


def _shows(params: Params) -> Iterable[MessageAlternative]:
    return tuple(MessageAlternative(text, params.stream and not has_jinja(text)) for text in params.content)


def _requires(params: Params) -> Iterable[Requirement]:
    if params.auto_play:
        yield Requirement("speech", params.tts_id or "", ("auto_play",))
    for index, memory in enumerate(params.memory_ids):
        if memory:
            yield Requirement("memory", memory, ("memory_ids", index))


def _lint(params: Params) -> Iterable[Finding]:
    for index, text in enumerate(params.content):
        if has_jinja(text) and (problem := find_syntax_error(text)):
            yield Finding(
                "template-invalid",
                "warning",
                ("content", index),
                f"The Jinja template is invalid: {problem}. It is shown unrendered, with its references filled in.",
            )


def _rewrite(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Read ``messages``, the former name of ``content``, and ``text``, which RAGFlow 1.0 accepts."""
    return rename_params(params, {"messages": "content", "text": "content"})


@component(
    "Message",
    kind="message",
    params=Params,
    outputs=Outputs,
    shows=_shows,
    output_names=lambda params: ("attachment",) if params.output_format else (),
    rewrite=_rewrite,
    lint=_lint,
    requires=_requires,
    # Memories and files that are written again stay the same.
    effects=lambda ctx, params: "pays" if params.memory_ids or params.output_format else "none",
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
        content = content if ctx.compatibility.old_values else strip_tags(content)
    downloads = drop_duplicates(downloads)
    end: dict[str, JsonValue] = {}
    if params.status:
        end["status"] = params.status
    attachment = await _convert(ctx, params.output_format) if params.output_format else {}
    if attachment:
        end["attachment"] = attachment
    if downloads:
        end["downloads"] = [*downloads]
    if any((references := ctx.references).values()):
        end["reference"] = cast("JsonValue", references)
    ctx.end = end
    if params.memory_ids and not ctx.services.is_demo:  # real runs would read it later
        await _remember(ctx, params)
    more: dict[str, Any] = {"attachment": attachment} if attachment else {}
    return Outputs(content=content, downloads=downloads, **more)


async def _convert(ctx: RunContext, output_format: str) -> dict[str, JsonValue]:
    """Write the text that was shown to a file, and return its description. A failure does not fail the Message."""
    wanted = output_format.strip().lower()
    format_ = cast("ReportFormat", wanted if wanted in FILE_FORMATS else "markdown")

    async def create() -> JsonValue:
        request = ReportRequest(strip_thinking(ctx.message_text), format_)
        file = await write_report_file(ctx, request, f"answer.{EXTENSIONS[format_]}")
        return [file.id, file.address]

    try:
        id_, address = cast("list[str]", await ctx.step("attachment", [ctx.message_text, format_], create))
    except (DatabaseError, RequestError, ServiceError, SettingsError) as error:
        logger.warning("The text of %s is not converted to %s: %s", ctx.node.id, format_, error)
        return {}
    if not address:
        logger.warning("The text of %s as %s is not kept: there is no store of files.", ctx.node.id, format_)
        return {}
    is_local = not id_ or local_path(id_) is not None
    return {"doc_id": id_, "format": format_, "file_name": address if is_local else f"{id_[:8]}.{format_}"}


async def _remember(ctx: RunContext, params: Params) -> None:
    """Store the question and the text that was shown in the memories. A failure does not fail the Message."""
    import asyncio  # slow to import, and checking a canvas does not need it

    exchange = Exchange(
        key=sha256(ctx.task.encode()).hexdigest()[:32] if ctx.task else ctx.services.ids.run_id(),
        user=memory_user(ctx, params.user_id),
        question=ctx.redacted_view.text(to_text(ctx.global_value("sys.query")), MAX_REMEMBERED_CHARS),
        answer=ctx.redacted_view.text(strip_thinking(ctx.message_text), MAX_REMEMBERED_CHARS),
    )
    try:
        async with asyncio.timeout(MEMORY_TIMEOUT_S):
            missing = await ctx.services.of(Memories).remember([id_ for id_ in params.memory_ids if id_], exchange)
    except (ServiceError, SettingsError, TimeoutError) as error:
        logger.warning("The text of %s is not written to a memory: %s", ctx.node.id, str(error) or "it took too long")
        return
    if missing:
        logger.warning("The text of %s is not written to unknown memories: %s", ctx.node.id, ", ".join(missing)[:500])


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
            is_plain = ctx.compatibility.old_values and model is None
            contents.append(text if is_plain else strip_tags(text))
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
    is_old = ctx.compatibility.old_values
    content = await render(template, values, ctx.services.workers, must_parse=is_old)
    return content.removesuffix("\n") if is_old and template.source.endswith("\n") else content
