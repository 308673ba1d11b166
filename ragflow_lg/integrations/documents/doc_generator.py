"""DocGenerator: write a file from Markdown."""

from __future__ import annotations

import base64
import json
import logging
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast
from urllib.parse import urlencode

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field

from ragflow_lg.base.errors import ComponentError, DatabaseError, RequestError, ServiceError, SettingsError
from ragflow_lg.base.local_paths import local_path
from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.decorator import RunContext, component
from ragflow_lg.component.report_files import EXTENSIONS, ReportFile, strip_thinking, write_report_file
from ragflow_lg.component.spec import ComponentOutputs, ComponentParams
from ragflow_lg.dsl.downloads import show_value
from ragflow_lg.dsl.variable_references import Reference, Template
from ragflow_lg.services.reports import Layout, ReportFormat, ReportRequest, Reports

logger = logging.getLogger(__name__)

MAX_NAME_CHARS = 180
"""Maximum length of a file's name without its extension."""

_UNFIT = re.compile(r'[\\/\x00-\x1f?#%*:|<>"]')
_BLANKS = re.compile(r"\s+")


def _read_format(value: Any) -> Any:
    """Read a format in any case; ``md`` is another name for ``markdown``."""
    name = value.strip().lower() if isinstance(value, str) else value
    return "markdown" if name == "md" else name or "pdf"


def _require_text(content: Template) -> Template:
    if not content.source:
        raise ValueError("must not be empty")
    return content


Line = Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]


class Params(ComponentParams):
    """Parameters of DocGenerator."""

    content: Annotated[Template, AfterValidator(_require_text)]
    """The text in Markdown."""
    output_format: Annotated[Literal["pdf", "docx", "txt", "markdown", "html"], BeforeValidator(_read_format)] = "pdf"
    filename: Line = ""
    """The name of the file; its extension is that of the format. Default: the time and a random number."""
    header_text: Line = Field("", validation_alias=AliasChoices("header_text", "header"))
    """The text above each page of PDF and DOCX files."""
    footer_text: Line = Field("", validation_alias=AliasChoices("footer_text", "footer"))
    """The text below each page of PDF and DOCX files."""
    watermark_text: Line = Field("", validation_alias=AliasChoices("watermark_text", "watermark"))
    """The text across each page of PDF and DOCX files."""
    add_page_numbers: bool = True
    """Whether pages of PDF and DOCX files are numbered."""
    add_timestamp: bool = True
    """Whether the time appears below each page, or in the first line of formats without pages."""
    font_size: float = Field(12, ge=12, le=72)
    """The size of the text in points. Headings are 6, 4 and 2 points larger."""
    include_download_info_in_content: bool = False
    """Whether a Message that shows the download also prints it."""


class Outputs(ComponentOutputs):
    """The file, which can be downloaded."""

    declared_by_default = frozenset({"doc_id", "filename", "mime_type", "size", "download"})

    doc_id: str = ""
    """The id of the file."""
    filename: str = ""
    mime_type: str = ""
    size: int = 0
    """The size in bytes."""
    download: str = ""
    """All of this as JSON; a Message that refers to it offers the file for download."""


@component(
    "DocGenerator",
    aliases=("DocsGenerator",),
    params=Params,
    outputs=Outputs,
    output_names=lambda params: ("warnings",),
    effects="pays",
    description="Write a PDF, DOCX, HTML, Markdown or text file from Markdown.",
    source="agent/component/docs_generator.py",
)
async def doc_generator(ctx: RunContext, params: Params) -> Outputs:
    """Write the file. Its output ``warnings`` exists if something could not be shown."""
    text = strip_thinking(_render(ctx, params.content))

    async def create() -> JsonValue:
        return await _create(ctx, params, text)

    arguments: Any = [text, params.model_dump(mode="json", include=set(Params.model_fields) - {"content", "inputs"})]
    try:
        written = cast("dict[str, Any]", await ctx.step("document", arguments, create))
    except (DatabaseError, RequestError, ServiceError, SettingsError) as error:
        raise ComponentError(f"Document generation failed: {error}", node=ctx.node.id) from error
    info = {name: value for name, value in written.items() if name != "warnings"}
    warnings = cast("list[str]", written["warnings"])
    for warning in warnings:
        logger.warning("Document of %s: %s", ctx.node.id, warning)
    more: dict[str, Any] = {"warnings": warnings} if warnings else {}
    known = {name: info[name] for name in ("doc_id", "filename", "mime_type", "size")}
    return Outputs(**known, download=json.dumps(info), **more)


def _render(ctx: RunContext, content: Template) -> str:
    """Fill in the references. One that cannot be read becomes an error in the text, as in RAGFlow."""
    return ctx.charge("".join(s if isinstance(s, str) else _show(ctx, s) for s in content.segments))


def _show(ctx: RunContext, reference: Reference) -> str:
    try:
        text = show_value(ctx.peek(reference), ctx.parse_json).text
    except ComponentError as error:
        return f"[ERROR: {error}]"
    ctx.record(reference, text)
    return text


async def _create(ctx: RunContext, params: Params, text: str) -> dict[str, JsonValue]:
    time = ctx.services.clock.local_time()
    layout = Layout(
        params.header_text,
        params.footer_text,
        params.watermark_text,
        f"Generated: {time}" if params.add_timestamp else "",
        params.add_page_numbers,
        params.font_size,
    )
    name = file_name(params.filename, params.output_format)
    if not name:
        stamp = time.translate(str.maketrans({"-": "", ":": "", " ": "_"}))
        name = f"document_{stamp}_{ctx.services.ids.run_id()[:8]}.{EXTENSIONS[params.output_format]}"
    file = await write_report_file(ctx, ReportRequest(text, params.output_format, layout), name)
    return {**_describe(ctx, params, file), "warnings": [*file.warnings]}


def _describe(ctx: RunContext, params: Params, file: ReportFile) -> Mapping[str, Any]:
    """Return RAGFlow's download info. Large files are not repeated in it, because it is stored with the session."""
    is_repeated = len(file.content) <= ctx.services.of(Reports).inline_bytes
    query = urlencode({"ext": params.output_format, "mime_type": file.media_type})
    is_served = bool(file.id) and local_path(file.id) is None
    return {
        "doc_id": file.id or ctx.services.ids.run_id(),
        "filename": file.name,
        "mime_type": file.media_type,
        "size": len(file.content),
        "base64": base64.b64encode(file.content).decode("ascii") if is_repeated else "",
        "preview_url": f"/api/v1/agents/attachments/{file.id}/preview?{query}" if is_served else file.address,
        "include_download_info_in_content": params.include_download_info_in_content,
    }


def file_name(wanted: str, output_format: ReportFormat) -> str:
    """Return a name for a file, or ``""`` if none is wanted. Source: RAGFlow's ``sanitize_filename``.

    >>> file_name("../Q1: report.docx", "pdf"), file_name(" ", "pdf"), file_name("?", "markdown")
    ('Q1 report.pdf', 'file.pdf', 'file.md')
    """
    if not wanted:
        return ""
    name = _BLANKS.sub(" ", _UNFIT.sub(" ", wanted)).strip(" .")
    stem, dot, _ = name.rpartition(".")
    base = (stem if dot and stem.strip(".") else name)[:MAX_NAME_CHARS].rstrip() or "file"
    return f"{base}.{EXTENSIONS[output_format]}"
