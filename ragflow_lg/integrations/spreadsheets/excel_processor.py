"""ExcelProcessor: read, merge, transform and write spreadsheets."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, TypeAlias, cast

from pydantic import BeforeValidator, Field

from ragflow_lg.base.errors import ComponentError, DatabaseError, RequestError, ServiceError
from ragflow_lg.base.spreadsheets.spreadsheet_tasks import (
    Merging,
    OutputFormat,
    Reading,
    convert_spreadsheets,
    merge_spreadsheets,
    read_spreadsheets,
    show_tables,
    write_spreadsheet,
)
from ragflow_lg.base.values import JsonValue, to_json
from ragflow_lg.component.decorator import RunContext, component
from ragflow_lg.component.spec import ComponentOutputs, ComponentParams, OneOrMany, OptionalReference, ReferenceEntry
from ragflow_lg.dsl.variable_references import Template, parse_template
from ragflow_lg.services.artifacts import Artifact

MEDIA_TYPES: Mapping[OutputFormat, str] = {
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "csv": "text/csv",
}
MAX_FILES = 20
MAX_BYTES = 32 * 1024 * 1024
"""Maximum total size of the files that one node reads."""

_MAX_NAME_CHARS = 180
_NO_DATA: Mapping[str, str] = {
    "transform": "No transform data reference provided",
    "output": "No data reference for output",
}


def _lower_case(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value


Operation: TypeAlias = Annotated[Literal["read", "merge", "transform", "output"], BeforeValidator(_lower_case)]


class Params(ComponentParams):
    """Parameters of ExcelProcessor."""

    operation: Operation = "read"
    """``read`` and ``merge`` read files, ``transform`` shows a value as a table, ``output`` writes a file."""
    input_files: OneOrMany[ReferenceEntry] = Field(default_factory=list[ReferenceEntry])
    """The files: fields of forms, ``sys.files``, or outputs that contain a file. ``output`` writes them to one file if
    ``transform_data`` is blank."""
    sheet_selection: str | None = "all"
    """The sheets to read: ``all``, ``first``, or names, separated by commas. Unknown names are ignored."""
    merge_strategy: str | None = Field(default="concat", examples=["concat", "join"])
    """``join`` joins tables on the column ``join_on``; otherwise their rows are put below each other."""
    join_on: str | None = ""
    transform_data: OptionalReference = None
    """The value to show or write: rows, or a map of sheets and their rows."""
    transform_instructions: str | None = ""
    """Not used, as in RAGFlow."""
    output_format: Annotated[OutputFormat, BeforeValidator(_lower_case)] = "xlsx"
    """The format of the new file. A CSV file contains only the first sheet."""
    output_filename: Template = Field(default_factory=lambda: parse_template("output"))
    max_rows: Annotated[int, Field(ge=0)] | None = None
    """The maximum number of rows per sheet in ``data``; the others are only counted. Default: all."""
    merge_files: bool | None = False
    """Whether ``output`` merges the sheets of ``input_files`` as ``merge`` does, instead of copying each."""
    allow_formulas: bool | None = False
    """Whether texts that begin with ``=`` become formulas in the new file. Only for data that you trust."""


class Outputs(ComponentOutputs):
    """What was read or written."""

    declared_by_default = frozenset({"data", "summary", "markdown"})

    data: Any = None
    """The rows, as maps, by file and sheet."""
    summary: str | None = None
    markdown: str | None = None
    """The first rows as Markdown tables."""
    attachment: dict[str, Any] | None = None
    """The new file: ``doc_id``, ``format`` and ``file_name``."""
    download: dict[str, Any] | None = None
    """The new file as a Message offers it for download."""


def _rewrite(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Read the names that RAGFlow's Go server uses."""
    names = {"file_ref": "input_files", "output_data": "transform_data", "sheet_name": "sheet_selection"}
    renamed = {names.get(key, key) if not params.get(names.get(key, key)) else key: v for key, v in params.items()}
    return {**renamed, "operation": "output"} if _lower_case(params.get("operation")) == "write" else renamed


def _output_names(params: Params) -> Iterable[str]:
    return ("data", "summary", "markdown", *(("attachment", "download") if params.operation == "output" else ()))


@component(
    "ExcelProcessor",
    params=Params,
    outputs=Outputs,
    output_names=_output_names,
    rewrite=_rewrite,
    effects="pays",
    description="Read, merge and write spreadsheets (XLSX, CSV).",
    source="agent/component/excel_processor.py",
)
async def excel_processor(ctx: RunContext, params: Params) -> Outputs:
    """Perform the operation. A file that cannot be read fails the node; missing files and values do not."""
    try:
        return Outputs.model_validate(await OPERATIONS[params.operation](ctx, params))
    except (DatabaseError, RequestError, ServiceError) as error:
        raise ComponentError(str(error), node=ctx.node.id) from error


async def _read(ctx: RunContext, params: Params) -> Mapping[str, Any]:
    return await ctx.services.workers.run(read_spreadsheets, await _load(ctx, params))


async def _merge(ctx: RunContext, params: Params) -> Mapping[str, Any]:
    return await ctx.services.workers.run(merge_spreadsheets, await _load(ctx, params), _merging(params))


def _merging(params: Params) -> Merging:
    joins = (params.merge_strategy or "").strip().lower() == "join"
    return Merging((params.join_on or "").strip() if joins else "")


async def _load(ctx: RunContext, params: Params) -> Reading:
    """Return the files of all references."""
    files: list[tuple[str, bytes]] = []
    size = 0
    for reference in params.input_files:
        for file in ctx.files(reference):
            content = await ctx.services.files.load(file)
            if content is None:
                continue
            size += len(content.content)
            files.append((content.name, content.content))
            if size > MAX_BYTES or len(files) > MAX_FILES:
                raise ServiceError(
                    f"{content.name!r}: the files of the node exceed {MAX_FILES} files or {MAX_BYTES // 1024**2} MiB"
                )
    return Reading(files, params.sheet_selection or "all", params.max_rows)


async def _transform(ctx: RunContext, params: Params) -> Mapping[str, Any]:
    if params.transform_data is None:
        return {"summary": _NO_DATA["transform"]}
    data = ctx.value(params.transform_data)
    if data is None:
        return {"summary": "Transform data is empty"}
    done = {"summary": "Transformed data ready for processing"}
    if not isinstance(data, dict | list):
        return {**done, "data": {"raw": str(data)}, "markdown": str(data)}
    sheets = _sheets(data)
    if sheets is not None:
        shown = await ctx.services.workers.run(show_tables, sheets)
        sections = [f"### {name}\n\n{table['markdown']}" for name, table in zip(sheets, shown, strict=True)]
        return {**done, "data": data, "markdown": ctx.charge("\n\n".join(sections))}
    (table,) = await ctx.services.workers.run(show_tables, {"": data})
    return {**done, "data": table["rows"], "markdown": table["markdown"]}


def _sheets(data: JsonValue) -> dict[str, JsonValue] | None:
    """Return a map of lists as sheets, and None for another value."""
    is_book = isinstance(data, dict) and all(isinstance(rows, list) for rows in data.values())
    return cast("dict[str, JsonValue]", data) if is_book else None


async def _output(ctx: RunContext, params: Params) -> Mapping[str, Any]:
    if params.transform_data is None:
        return await _convert(ctx, params)
    data = ctx.value(params.transform_data)
    if data is None:
        return {"summary": "No data to output"}
    if not isinstance(data, dict | list):
        return {"summary": "Invalid data format for Excel output"}
    sheets = _sheets(data) or {"Sheet1": data}

    def write() -> Awaitable[dict[str, JsonValue]]:
        return ctx.services.workers.run(write_spreadsheet, sheets, params.output_format, bool(params.allow_formulas))

    shown = await ctx.services.workers.run(show_tables, sheets)
    rows = {name: table["rows"] for name, table in zip(sheets, shown, strict=True)}
    return {**await _store(ctx, params, to_json(sheets), write), "data": rows}


async def _convert(ctx: RunContext, params: Params) -> Mapping[str, Any]:
    """Write the input files to a new file. Their rows never leave the worker process."""
    reading = await _load(ctx, params) if params.input_files else None
    if reading is None:
        return {"summary": _NO_DATA["output"]}
    if not reading.files:
        return {"summary": "No data to output"}

    def write() -> Awaitable[dict[str, JsonValue]]:
        merging = _merging(params) if params.merge_files else None
        return ctx.services.workers.run(
            convert_spreadsheets, reading, merging, params.output_format, bool(params.allow_formulas)
        )

    return await _store(ctx, params, [name for name, _ in reading.files], write)


async def _store(
    ctx: RunContext, params: Params, source: JsonValue, write: Callable[[], Awaitable[dict[str, JsonValue]]]
) -> dict[str, Any]:
    """Write and keep a file, once even if the process is killed after that. Return the outputs about it."""
    name = _file_name(ctx.text(params.output_filename), params.output_format)
    media_type = MEDIA_TYPES[params.output_format]

    async def create() -> JsonValue:
        written = await write()
        content = b"".join(map(base64.b64decode, cast("list[str]", written["parts"])))
        stored = await ctx.services.artifacts.store(Artifact(name, media_type, content), has_text=False)
        sizes = f"{written['sheets']} sheet(s), {written['rows']} total rows"
        return {"id": stored.id, "url": stored.url, "size": len(content), "sizes": sizes}

    file = cast("dict[str, Any]", await ctx.step("spreadsheet", [name, source], create))
    summary = f"Generated {name} with {file['sizes']}"
    if not file["id"]:
        return {"summary": f"{summary}; it is not kept, because there is no store of files"}
    info = {"doc_id": file["id"], "filename": name, "mime_type": media_type, "size": file["size"], "url": file["url"]}
    attachment = {"doc_id": file["id"], "format": params.output_format, "file_name": name}
    return {"summary": summary, "attachment": attachment, "download": info}


def _file_name(name: str, format_: OutputFormat) -> str:
    """Return the last part of a name, with the extension of the format."""
    last = PurePosixPath(name.replace("\\", "/")).name.strip()
    stem = last.removesuffix(f".{format_}") or "output"
    return f"{stem[:_MAX_NAME_CHARS]}.{format_}"


OPERATIONS: Mapping[str, Callable[[RunContext, Params], Awaitable[Mapping[str, Any]]]] = {
    "read": _read,
    "merge": _merge,
    "transform": _transform,
    "output": _output,
}
