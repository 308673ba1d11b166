"""Routes for what a tenant has: keys of embedded pages, files, and quotas.

API keys are created on the command line only: a stolen one must not be able to create others that outlive it.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.agents.file_store import file_store, has_secret
from ragflow_lg.server.agents.quotas import list_quotas
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.file_repository import FileQuery
from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.server.database.tables import FileRow, KeyRow
from ragflow_lg.server.http.native.native_requests import Body, Line, NoBoolean
from ragflow_lg.server.http.native.native_responses import build_answer
from ragflow_lg.server.http.native.native_routing import Page, PageSize, make_native_router
from ragflow_lg.server.http.native.problem_details import describe_problems
from ragflow_lg.server.http.shared.auth import Authenticated, WithAnyKey, get_app_state, get_turns
from ragflow_lg.server.http.shared.ragflow_routes import with_examples
from ragflow_lg.server.http.shared.responses import respond_json
from ragflow_lg.server.observability.logs import audit

key_router = make_native_router("keys of pages")

_PAGE = "beta"
_DAY_MS = 86_400_000
MAX_AGENTS = 30
MAX_KEYS = 1000
"""How many valid keys of pages a tenant may have."""


class NewKey(Body):
    """A key of embedded pages to create."""

    model_config = with_examples({"agents": ["0c7f4a1e2b5d4c8f9a3b6d7e8f901234"], "expires_days": 90})

    agents: Annotated[
        list[Annotated[str, Field(max_length=32)]],
        Field(max_length=MAX_AGENTS, description="Ids of the agents that the pages may use."),
    ] = Field(default_factory=list[str])
    all_agents: Annotated[
        bool, Field(strict=True, description="Whether the pages may use all agents, also later ones.")
    ] = False
    name: Annotated[Line, Field(description="Purpose of the key.")] = ""
    expires_days: Annotated[
        Annotated[float, Field(gt=0, le=36_500)] | None,
        NoBoolean,
        Field(description="Days after which the key becomes invalid. Default: never."),
    ] = None


class KeyAnswer(BaseModel):
    """A key of embedded pages."""

    id: str
    prefix: Annotated[str, Field(description="The beginning of the key.")]
    name: str
    agents: Annotated[list[str], Field(description="The agents that its pages may use; empty for all.")]
    created_at: Annotated[float, Field(description="Epoch seconds.")]
    expires_at: Annotated[float | None, Field(description="Epoch seconds; none for never.")]


class CreatedKey(KeyAnswer):
    """A new key, which is shown only once."""

    key: str


class KeyListAnswer(BaseModel):
    """The valid keys of embedded pages."""

    keys: list[KeyAnswer]


@key_router.post(
    "/keys", response_model=CreatedKey, status_code=201, responses=describe_problems(404), summary="Create"
)
async def create_key(body: NewKey, request: Request, caller: Authenticated) -> Response:
    """Create a key for embedded pages, limited to some agents. Anyone who opens such a page can read its key."""
    if bool(body.agents) == body.all_agents:
        raise RequestError("Name the pages' `agents`, or set `all_agents` to true.", 101, status=422)
    app_state, agents = get_app_state(request), list(dict.fromkeys(body.agents))
    repository = AgentRepository(app_state.database, caller.tenant)
    for agent_id in agents:
        if await repository.get(agent_id) is None:
            raise RequestError(f"There is no agent {agent_id!r}.", status=404)
    keys, now_ms = KeyRepository(app_state.database), app_state.now_ms()
    if len(await _list_keys(keys, caller.tenant, now_ms)) >= MAX_KEYS:
        raise RequestError(f"The tenant has {MAX_KEYS:,} keys of pages; revoke some.", 101, status=422)
    expire_ms = now_ms + max(1, int(body.expires_days * _DAY_MS)) if body.expires_days else 0
    key = await keys.create(caller.tenant, now_ms, name=body.name, kind=_PAGE, agents=agents, expire_ms=expire_ms)
    row = await keys.find(key, now_ms, _PAGE)
    if row is None:
        raise RequestError("The key has been revoked already.", status=404)
    audit("key.created", key=row.id, name=row.name, kind=row.kind)
    return respond_json(CreatedKey(**_build_key(row).model_dump(), key=key), 201, {"Cache-Control": "no-store"})


@key_router.get("/keys", summary="List")
async def list_keys(request: Request, caller: Authenticated) -> KeyListAnswer:
    """List the valid keys of embedded pages, oldest first. Only the beginning of each key is known."""
    app_state = get_app_state(request)
    rows = await _list_keys(KeyRepository(app_state.database), caller.tenant, app_state.now_ms())
    return KeyListAnswer(keys=[_build_key(row) for row in rows])


@key_router.delete("/keys/{key_id}", summary="Revoke")
async def revoke_key(key_id: str, request: Request, caller: Authenticated) -> None:
    """Revoke a key of embedded pages by its id. It becomes invalid immediately."""
    app_state = get_app_state(request)
    keys, now_ms = KeyRepository(app_state.database), app_state.now_ms()
    row = await keys.get(key_id, now_ms)
    if row is None or row.tenant != caller.tenant or row.kind != _PAGE:
        raise RequestError("Key not found.", status=404)
    await keys.revoke(row.id, now_ms)
    audit("key.revoked", key=row.id, name=row.name)


async def _list_keys(keys: KeyRepository, tenant: str, now_ms: int) -> list[KeyRow]:
    rows = await keys.list()
    return [row for row in rows if row.tenant == tenant and row.kind == _PAGE and row.is_valid(now_ms)]


def _build_key(row: KeyRow) -> KeyAnswer:
    return build_answer(
        KeyAnswer,
        row,
        agents=row.agents.split(",") if row.agents else [],
        created_at=row.create_ms / 1000,
        expires_at=row.expire_ms / 1000 if row.expire_ms else None,
    )


file_router = make_native_router("files")


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


@file_router.get("/files", summary="List files")
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


@file_router.delete("/files/{file_id}", summary="Delete a file")
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


quota_router = make_native_router("quotas")


class QuotaAnswer(BaseModel):
    """A quota."""

    name: Annotated[str, Field(description="Stable name, as in refusals.", examples=["tokens_day"])]
    limit: Annotated[float | None, Field(description="None if there is no limit.", examples=[1000])]
    used: Annotated[float, Field(description="How much of it is used; `runs`: in this process.", examples=[17])]


class QuotaListAnswer(BaseModel):
    """The quotas of a tenant."""

    quotas: list[QuotaAnswer]


@quota_router.get("/quotas", summary="Show quotas")
async def show_quotas(request: Request, caller: Authenticated) -> QuotaListAnswer:
    """Show the tenant's quotas and how much of them is used. Quotas of a day are renewed at 00:00 UTC."""
    runs = get_turns(request).count_runs(caller.tenant)
    uses = await list_quotas(get_app_state(request), caller.tenant, runs)
    return QuotaListAnswer(quotas=[QuotaAnswer(name=use.name, limit=use.limit or None, used=use.used) for use in uses])
