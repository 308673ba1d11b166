"""RAGFlow's routes for files: uploads for turns, and downloads of uploads and of files that runs create."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, cast
from urllib.parse import quote, unquote, urlsplit

from fastapi import Depends, Query
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.errors import RequestError, ServiceError
from ragflow_lg.server.agents.file_store import file_store, normalize_mime_type, safe_file_name
from ragflow_lg.server.database.file_repository import FileQuery
from ragflow_lg.server.database.tables import FileRow
from ragflow_lg.server.http.shared.auth import ApiCaller, Authenticated, WithAnyKey, get_app_state
from ragflow_lg.server.http.shared.ragflow_routes import Fields, Pages, Text, make_router, with_examples
from ragflow_lg.server.http.shared.request_bodies import MAX_IDS, Upload, is_multipart, read_parts, to_text
from ragflow_lg.server.http.shared.responses import format_times, respond_plain
from ragflow_lg.server.http.shared.turn_sessions import load_agent
from ragflow_lg.server.observability.logs import audit
from ragflow_lg.services.http import HttpRequest

router = make_router("RAGFlow: files", "")

MAX_UPLOADS = 20
"""Maximum number of files in one request."""
FILES_PER_PAGE = 15

_VIEWABLE = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp", "application/pdf", "application/json")
_VIEWABLE_KINDS = ("audio/", "video/")
_TEXTS = ("text/plain", "text/markdown", "text/csv")

_ANY: dict[int | str, dict[str, Any]] = {200: {"content": {"*/*": {}}}}
"""A route whose answer is a file."""
_UPLOAD: dict[str, Any] = {
    "requestBody": {
        "content": {
            "multipart/form-data": {
                "schema": {"type": "object", "properties": {"file": {"type": "array", "items": {"type": "string"}}}}
            }
        }
    }
}


class Naming(BaseModel):
    """How a downloaded file is named."""

    filename: Annotated[str, Field(description="Name of the file.")] = ""
    ext: Annotated[str, Field(description="Extension of the name.")] = ""
    mime_type: Annotated[str, Field(description="Media type instead of the stored one.")] = ""
    disposition: Annotated[str, Field(description="`inline`: return the file for display, as `preview` does.")] = ""


Named = Annotated[Naming, Query()]
PageUrl = Annotated[str, Query(description="Address of a page to store instead of files.")]


@router.post("/api/v1/agents/{agent_id}/upload", openapi_extra=_UPLOAD)
async def upload(agent_id: str, request: Request, caller: WithAnyKey, url: PageUrl = "") -> Any:
    """Store files for a turn's ``files``. With ``url``, store the page at that address instead."""
    agent = await load_agent(request, caller, agent_id)
    if url and caller.is_page:
        raise RequestError("Embedded pages cannot import addresses; upload the file.", 101)
    uploads = [await _fetch_page(request, caller, url)] if url else await _read_uploads(request)
    return await _store_files(request, caller, uploads, agent.id)


@router.post("/api/v1/file/upload_info", openapi_extra=_UPLOAD)
@router.post("/api/v1/documents/upload", openapi_extra=_UPLOAD)
async def upload_without_agent(request: Request, caller: Authenticated, url: PageUrl = "") -> Response:
    """Store files for a turn of any agent. With ``url``, store the page at that address instead."""
    if url and is_multipart(request):
        raise RequestError("Provide either multipart file(s) or ?url=..., not both.", 101, has_data=True)
    if not url and not is_multipart(request):
        raise RequestError("Missing input: provide multipart file(s) or url", 101, has_data=True)
    uploads = [await _fetch_page(request, caller, url)] if url else await _read_uploads(request)
    return respond_plain(await _store_files(request, caller, uploads))


@router.get("/api/v1/agents/download", responses=_ANY)
async def download_upload(
    request: Request, caller: WithAnyKey, naming: Annotated[Naming, Depends()], id: str = ""
) -> Response:
    """Download an upload."""
    return await _download(request, caller, id, naming)


@router.get("/api/v1/agents/attachments/{file_id}/download", responses=_ANY)
@router.get("/api/v1/document/download/{file_id}", responses=_ANY)
@router.get("/v1/document/download/{file_id}", responses=_ANY)
async def download(file_id: str, request: Request, caller: WithAnyKey, naming: Named) -> Response:
    """Download a file as an attachment, or with ``disposition=inline`` for display."""
    return await _download(request, caller, file_id, naming, is_preview=naming.disposition.lower() == "inline")


@router.get("/api/v1/agents/attachments/{file_id}/preview", responses=_ANY)
async def preview(file_id: str, request: Request, caller: WithAnyKey, naming: Named) -> Response:
    """Return a file for display in a browser, if its type is safe to display."""
    return await _download(request, caller, file_id, naming, is_preview=True)


@router.get("/api/v1/documents/artifact/{file_name}", responses=_ANY)
async def artifact(file_name: str, request: Request, caller: WithAnyKey, naming: Named) -> Response:
    """Return a file that a program of CodeExec has created, for display if its type is safe to display."""
    return await _download(request, caller, file_name.partition(".")[0], naming, is_preview=True)


ROOT = "root"
"""The id of the only folder."""


class FileFilters(Pages):
    """Which files to list."""

    parent_id: Annotated[str, Field(description=f"Only `{ROOT}`: there are no other folders.")] = ""
    keywords: Annotated[Text, Field(description="Only files whose name contains this text.")] = ""


class FileIds(Fields):
    """Files to delete."""

    model_config = with_examples({"ids": ["a" * 32]})

    ids: Any = None


@router.get("/api/v1/files")
async def list_files(
    request: Request, caller: Authenticated, filters: Annotated[FileFilters, Query()]
) -> dict[str, Any]:
    """List uploads and files that runs created, newest first."""
    _check_folder(filters.parent_id)
    page, size = filters.read(caller, FILES_PER_PAGE)
    query = FileQuery(keywords=filters.keywords)
    rows, total, _ = await file_store(get_app_state(request), caller.tenant).list(query, page, size)
    files = [_describe_listed(row, caller) for row in rows]
    folder = {"id": ROOT, "parent_id": ROOT, "name": "/", "type": "folder", "tenant_id": caller.tenant, "size": 0}
    return {"files": files, "total": total, "parent_folder": folder}


@router.post("/api/v1/files", openapi_extra=_UPLOAD)
async def upload_files(request: Request, caller: Authenticated) -> list[dict[str, Any]]:
    """Store files that belong to no agent."""
    if not is_multipart(request):
        raise RequestError("This server has no folders. Send files as multipart/form-data in the field `file`.", 101)
    rows = await _store(request, caller, await _read_uploads(request))
    return [_describe_listed(row, caller) for row in rows]


@router.delete("/api/v1/files")
async def delete_files(body: FileIds, request: Request, caller: Authenticated) -> dict[str, Any]:
    """Delete files."""
    sent: Any = body.ids
    ids = list(dict.fromkeys(map(to_text, cast("list[Any]", sent)))) if isinstance(sent, list) else []
    if not 0 < len(ids) <= MAX_IDS:
        raise RequestError(f"`ids` must be a list of 1 to {MAX_IDS} ids.", 101)
    store, errors = file_store(get_app_state(request), caller.tenant), list[str]()
    for id_ in ids:
        if (file := await store.find(id_)) is None:
            errors.append(f"File not found: {id_:.80}")
            continue
        await store.delete(file)
        audit("file.deleted", file=file.id, agent=file.agent_id)
    data: dict[str, Any] = {"success_count": len(ids) - len(errors)}
    if errors:
        raise RequestError("; ".join(errors)[:1_000], data={**data, "errors": errors}, has_data=True)
    return data


@router.get("/api/v1/files/{file_id}", responses=_ANY)
async def download_file(file_id: str, request: Request, caller: Authenticated, naming: Named) -> Response:
    """Download a file."""
    return await _download(request, caller, file_id, naming)


def _check_folder(folder: str) -> None:
    if folder not in ("", ROOT):
        raise RequestError("Folder not found! This server keeps files without folders.")


async def _download(
    request: Request, caller: ApiCaller, file_id: str, naming: Naming, *, is_preview: bool = False
) -> Response:
    app_state = get_app_state(request)
    store = file_store(app_state, caller.tenant)
    file = await store.find_valid(file_id, app_state.now_ms())
    is_open = file is not None and caller.opens(file.agent_id) and await store.may_read(file, caller.visitor)
    if file is None or not is_open:
        audit("file.refused", file=file_id)
        raise RequestError("document not found", status=404)
    name = safe_file_name(naming.filename or _add_extension(file.name, naming.ext))
    kind = normalize_mime_type(naming.mime_type or file.mime_type)
    is_inline = is_preview and _is_viewable(kind)
    headers = {"Content-Disposition": _format_disposition(name, is_inline=is_inline), "Cache-Control": "private"}
    return Response(await store.content(file), media_type=_get_media_type(kind), headers=headers)


async def _read_uploads(request: Request) -> list[Upload]:
    if not is_multipart(request):
        raise RequestError("Send files as multipart/form-data in the field `file`.", 101)
    parts = [part for name, part in await read_parts(request, MAX_UPLOADS) if name == "file"]
    files = [part for part in parts if isinstance(part, Upload)]
    if not files:
        raise RequestError("The field `file` contains no file.", 101)
    return files


async def _store_files(request: Request, caller: ApiCaller, uploads: Sequence[Upload], agent_id: str = "") -> Any:
    """Store files, and describe them: one as an object, several as a list."""
    stored = [_describe_file(row, caller) for row in await _store(request, caller, uploads, agent_id)]
    return stored[0] if len(stored) == 1 else stored


async def _store(request: Request, caller: ApiCaller, uploads: Sequence[Upload], agent_id: str = "") -> list[FileRow]:
    app_state = get_app_state(request)
    store = file_store(app_state, caller.tenant)
    stored: list[FileRow] = []
    for file in uploads:
        now = app_state.now_ms()
        row = await store.save(
            app_state.new_id(),
            file.name,
            file.mime_type,
            file.content,
            now,
            agent_id,
            page_key=caller.page_key,
            visitor=caller.visitor,
        )
        stored.append(row)
    return stored


async def _fetch_page(request: Request, caller: ApiCaller, url: str) -> Upload:
    if not _is_web_address(url):
        raise RequestError("`url` must begin with http:// or https://.", 101)
    try:
        answer = await get_app_state(request).services_of(caller.tenant).http.send(HttpRequest("GET", url))
    except ServiceError as error:
        raise RequestError(f"The page cannot be imported: {error}", 102) from error
    if answer.status != 200:
        raise RequestError(f"The page cannot be imported: its server returned status {answer.status}.", 102)
    headers = {name.lower(): value for name, value in answer.headers.items()}
    kind = normalize_mime_type(headers.get("content-type", "text/html"))
    path = urlsplit(url).path.rstrip("/")
    name = unquote(path.rpartition("/")[2]) or (urlsplit(url).hostname or "page")
    if kind == "text/html" and not name.lower().endswith((".html", ".htm")):
        name += ".html"
    return Upload(name, kind, answer.text.encode("utf-8", "replace"))


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False


def _describe_file(file: FileRow, caller: ApiCaller) -> dict[str, Any]:
    return {
        "id": file.id,
        "name": file.name,
        "size": file.size_bytes,
        "extension": file.name.rpartition(".")[2].lower() if "." in file.name else "",
        "mime_type": file.mime_type,
        "created_by": caller.tenant,
        "created_at": file.create_ms / 1000,
        "preview_url": None,
    }


def _describe_listed(file: FileRow, caller: ApiCaller) -> dict[str, Any]:
    kinds = {"image": "visual", "audio": "aural"}
    return {
        "id": file.id,
        "parent_id": ROOT,
        "tenant_id": caller.tenant,
        "created_by": caller.tenant,
        "name": file.name,
        "location": file.name,
        "size": file.size_bytes,
        "type": kinds.get(file.mime_type.partition("/")[0], "doc"),
        "source_type": "",
        **format_times(file.create_ms, file.create_ms),
    }


def _add_extension(name: str, extension: str) -> str:
    extension = extension.strip(". ")
    return name if not extension or name.lower().endswith(f".{extension.lower()}") else f"{name}.{extension}"


def _is_viewable(kind: str) -> bool:
    """Return whether a browser may display a type: only types that cannot contain scripts."""
    return kind in _VIEWABLE or kind in _TEXTS or kind.startswith(_VIEWABLE_KINDS)


def _get_media_type(kind: str) -> str:
    if kind in _TEXTS:
        return f"{kind}; charset=utf-8"
    return kind if _is_viewable(kind) else "application/octet-stream"


def _format_disposition(name: str, *, is_inline: bool) -> str:
    """Format `Content-Disposition` according to RFC 6266; all but plain characters in the name are quoted."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in " ._-()") else "_" for c in name)
    kind = "inline" if is_inline else "attachment"
    return f"{kind}; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
