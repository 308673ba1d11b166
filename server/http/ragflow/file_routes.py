"""RAGFlow's routes for files: uploads for turns, and downloads of uploads and of files that runs create."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated
from urllib.parse import quote, unquote, urlsplit

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ragflow_lg.base.errors import RequestError, ServiceError
from ragflow_lg.server.agents.file_store import file_store, normalize_mime_type, read_slices, safe_file_name
from ragflow_lg.server.database.tables import FileRow
from ragflow_lg.server.http.shared.auth import ApiCaller, Authenticated, WithAnyKey, get_app_state
from ragflow_lg.server.http.shared.described_routes import DescribedRoute, describe, describe_query
from ragflow_lg.server.http.shared.request_parsing import Upload, is_multipart, read_parts
from ragflow_lg.server.http.shared.route_schemas import Answer
from ragflow_lg.server.http.shared.row_loading import load_agent
from ragflow_lg.server.http.shared.visitor_header import VISITOR
from ragflow_lg.server.observability.audit import audit
from ragflow_lg.services.http import HttpRequest

router = APIRouter(tags=["RAGFlow: files"], route_class=DescribedRoute)

MAX_UPLOADS = 20
"""Maximum number of files in one request."""

_VIEWABLE = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp", "application/pdf", "application/json")
_VIEWABLE_KINDS = ("audio/", "video/")
_TEXTS = ("text/plain", "text/markdown", "text/csv")

_URL = describe_query("url", "Address of a page to store instead of files.", examples=["https://example.org/prices"])
_ID = describe_query("id", "Id of the file.")
_DISPOSITION = describe_query("disposition", "`inline`: return the file for display, as `preview` does.")
_NAMED = (
    describe_query("filename", "Name of the downloaded file."),
    describe_query("ext", "Extension of the name."),
    describe_query("mime_type", "Media type instead of the stored one."),
)
_BYTES = {
    "application/octet-stream": "The file.",
    "text/plain": "The file.",
    "image/png": "The file; likewise for other images, audio, video and PDF.",
}


class FileShown(Answer):
    """A stored file; it can be used unchanged in a turn's `files`."""

    id: str
    name: str
    size: int
    extension: str
    mime_type: str
    created_by: str
    created_at: Annotated[float, Field(description="Epoch seconds.")]
    preview_url: None = None


class UploadBody(BaseModel):
    """Files to store."""

    file: Annotated[list[bytes], Field(min_length=1, max_length=MAX_UPLOADS)]


@router.post("/api/v1/agents/{agent_id}/upload")
@describe(VISITOR, _URL, body=UploadBody, body_kind="multipart/form-data", is_body_required=False)
async def upload(agent_id: str, request: Request, caller: WithAnyKey) -> FileShown | list[FileShown]:
    """Store files for a turn's ``files``. With ``url``, store the page at that address instead."""
    agent, url = await load_agent(request, caller, agent_id), request.query_params.get("url", "")
    if url and caller.is_page:
        raise RequestError("Embedded pages cannot import addresses; upload the file.", 101)
    uploads = [await _fetch_page(request, caller, url)] if url else await _read_uploads(request)
    return await _store_files(request, caller, uploads, agent.id)


@router.post("/api/v1/documents/upload")
@describe(_URL, surface="plain", body=UploadBody, body_kind="multipart/form-data", is_body_required=False)
async def upload_without_agent(request: Request, caller: Authenticated) -> FileShown | list[FileShown]:
    """Store files for a turn of any agent. With ``url``, store the page at that address instead."""
    url = request.query_params.get("url", "")
    if url and is_multipart(request):
        raise RequestError("Provide either multipart file(s) or ?url=..., not both.", 101, has_data=True)
    if not url and not is_multipart(request):
        raise RequestError("Missing input: provide multipart file(s) or url", 101, has_data=True)
    uploads = [await _fetch_page(request, caller, url)] if url else await _read_uploads(request)
    return await _store_files(request, caller, uploads)


@router.get("/api/v1/agents/download")
@describe(VISITOR, _ID, *_NAMED, surface="none", raw=_BYTES)
async def download_upload(request: Request, caller: WithAnyKey) -> Response:
    """Download an upload."""
    return await _download(request, caller, request.query_params.get("id", ""))


@router.get("/api/v1/agents/attachments/{file_id}/download")
@router.get("/api/v1/document/download/{file_id}")
@router.get("/v1/document/download/{file_id}")
@describe(VISITOR, *_NAMED, _DISPOSITION, surface="none", raw=_BYTES)
async def download(file_id: str, request: Request, caller: WithAnyKey) -> Response:
    """Download a file as an attachment, or with ``disposition=inline`` for display."""
    is_preview = request.query_params.get("disposition", "").lower() == "inline"
    return await _download(request, caller, file_id, is_preview=is_preview)


@router.get("/api/v1/agents/attachments/{file_id}/preview")
@describe(VISITOR, *_NAMED, surface="none", raw=_BYTES)
async def preview(file_id: str, request: Request, caller: WithAnyKey) -> Response:
    """Return a file for display in a browser, if its type is safe to display."""
    return await _download(request, caller, file_id, is_preview=True)


@router.get("/api/v1/documents/artifact/{file_name}")
@describe(VISITOR, surface="none", raw=_BYTES)
async def artifact(file_name: str, request: Request, caller: WithAnyKey) -> Response:
    """Return a file that a program of CodeExec has created, for display if its type is safe to display."""
    return await _download(request, caller, file_name.partition(".")[0], is_preview=True)


async def _download(request: Request, caller: ApiCaller, file_id: str, *, is_preview: bool = False) -> Response:
    app_state = get_app_state(request)
    store = file_store(app_state, caller.tenant)
    file = await store.find_valid(file_id, app_state.now_ms())
    is_open = file is not None and caller.opens(file.agent_id) and await store.may_read(file, caller.visitor)
    if file is None or not is_open:
        audit("file.refused", file=file_id)
        raise RequestError("document not found", status=404)
    query = request.query_params
    name = safe_file_name(query.get("filename") or _add_extension(file.name, query.get("ext", "")))
    kind = normalize_mime_type(query.get("mime_type") or file.mime_type)
    is_inline = is_preview and _is_viewable(kind)
    headers = {"Content-Disposition": _format_disposition(name, is_inline=is_inline), "Cache-Control": "private"}
    if (content := await store.open_plain(file)) is None:
        return Response(await store.content(file), media_type=_get_media_type(kind), headers=headers)
    headers["Content-Length"] = str(file.size_bytes)
    return StreamingResponse(read_slices(content), media_type=_get_media_type(kind), headers=headers)


async def _read_uploads(request: Request) -> list[Upload]:
    if not is_multipart(request):
        raise RequestError("Send files as multipart/form-data in the field `file`.", 101)
    parts = [part for name, part in await read_parts(request, MAX_UPLOADS) if name == "file"]
    files = [part for part in parts if isinstance(part, Upload)]
    if not files:
        raise RequestError("The field `file` contains no file.", 101)
    return files


async def _store_files(
    request: Request, caller: ApiCaller, uploads: Sequence[Upload], agent_id: str = ""
) -> FileShown | list[FileShown]:
    """Store files, and describe them: one as an object, several as a list."""
    app_state = get_app_state(request)
    store = file_store(app_state, caller.tenant)
    stored: list[FileShown] = []
    for file in uploads:
        now = app_state.now_ms()
        page_key = caller.owner.id if caller.is_page else ""
        row = await store.save(
            app_state.new_id(),
            file.name,
            file.mime_type,
            file.content,
            now,
            agent_id,
            page_key=page_key,
            visitor=caller.visitor,
        )
        stored.append(_describe_file(row, caller))
    return stored[0] if len(stored) == 1 else stored


async def _fetch_page(request: Request, caller: ApiCaller, url: str) -> Upload:
    """Fetch a page with the guarded HTTP client.

    Raises:
        RequestError: if the page is not available, or the address is refused.
    """
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


def _describe_file(file: FileRow, caller: ApiCaller) -> FileShown:
    return FileShown(
        id=file.id,
        name=file.name,
        size=file.size_bytes,
        extension=file.name.rpartition(".")[2].lower() if "." in file.name else "",
        mime_type=file.mime_type,
        created_by=caller.tenant,
        created_at=file.create_ms / 1000,
    )


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
