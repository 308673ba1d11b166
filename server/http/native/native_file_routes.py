"""Routes for the tenant's files: list and delete them. Visitors of embedded pages reach only their own files."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, Field
from starlette.requests import Request

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.agents.file_store import file_store
from ragflow_lg.server.agents.visitors import has_secret
from ragflow_lg.server.database.file_repository import FileQuery
from ragflow_lg.server.database.tables import FileRow
from ragflow_lg.server.http.native.native_responses import build_answer
from ragflow_lg.server.http.native.native_routing import Page, PageSize, make_native_router
from ragflow_lg.server.http.shared.auth import WithAnyKey, get_app_state
from ragflow_lg.server.observability.audit import audit

router = make_native_router("files")


class FileAnswer(BaseModel):
    """A file."""

    id: str
    name: str
    mime_type: str
    size_bytes: int
    agent_id: Annotated[str, Field(description="The agent that it was uploaded for; empty for none.")]
    page_key: Annotated[str, Field(description="Id of the key of the embedded page that uploaded it, or empty.")]
    created_at: Annotated[float, Field(description="Epoch seconds.")]
    expires_at: Annotated[float | None, Field(description="When it is deleted, in epoch seconds; null for never.")]


class FileListAnswer(BaseModel):
    """A page of files."""

    files: list[FileAnswer]
    total: Annotated[int, Field(description="Number of all files.")]
    total_bytes: Annotated[int, Field(description="Their size.")]


@router.get("/files", summary="List files")
async def list_files(
    request: Request,
    caller: WithAnyKey,
    agent_id: Annotated[str, Query(max_length=32, description="Only files uploaded for this agent.")] = "",
    page: Page = 1,
    page_size: PageSize = 30,
) -> FileListAnswer:
    """List uploads and files that runs created, newest first.

    With a key of embedded pages and `X-RAGFlow-Visitor`, these are the visitor's files; without this header, none.
    """
    is_unknown = caller.is_page and not has_secret(caller.visitor)
    if is_unknown or (agent_id and not caller.opens(agent_id)):
        return FileListAnswer(files=[], total=0, total_bytes=0)
    query = FileQuery(caller.visitor, (agent_id,) if agent_id else caller.owner.agents)
    rows, total, size = await file_store(get_app_state(request), caller.tenant).list(query, page, page_size)
    return FileListAnswer(files=[_build_file(row) for row in rows], total=total, total_bytes=size)


@router.delete("/files/{file_id}", summary="Delete a file")
async def delete_file(file_id: str, request: Request, caller: WithAnyKey) -> None:
    """Delete a file. Turns that read it already keep its text; a turn that reads it later fails.

    With a key of embedded pages, only the visitor's own files can be deleted, with `X-RAGFlow-Visitor`.
    """
    store = file_store(get_app_state(request), caller.tenant)
    file = await store.find(file_id)
    is_unknown = caller.is_page and not has_secret(caller.visitor)
    if file is None or is_unknown or not caller.reaches(file):
        audit("file.refused", file=file_id)
        raise RequestError("File not found.", status=404)
    await store.delete(file)
    audit("file.deleted", file=file.id, agent=file.agent_id)


def _build_file(row: FileRow) -> FileAnswer:
    expires_at = row.expire_ms / 1000 if row.expire_ms else None
    return build_answer(FileAnswer, row, created_at=row.create_ms / 1000, expires_at=expires_at)
