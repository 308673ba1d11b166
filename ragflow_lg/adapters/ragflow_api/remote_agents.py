"""Agents, their versions and MCP servers on a RAGFlow server, in all generations of its API.

Up to 0.25.0 the list of agents is the data itself and contains canvases; afterwards it is an entry of the data, and
each agent is read by itself. Versions can be read with an API key only since then; RAGFlow 1.0 lists them with their
canvases. All functions raise ServiceError if the server fails or refuses a request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from ragflow_lg.adapters.ragflow_api.api_client import (
    RagflowApi,
    as_map,
    as_rows,
    is_id,
    read_number,
    read_object,
    read_text,
)
from ragflow_lg.base.errors import RefusalError, ServiceError

MAX_AGENTS = 5_000
MAX_VERSIONS = 200
MAX_MCP_SERVERS = 500
MAX_TITLE_CHARS = 255

_GONE = (102, 103)
"""What is answered about an agent that does not exist: up to 0.27, and since 1.0, where it may also be another's."""


class RemoteAgent(Struct, frozen=True):
    """An agent with its draft. Times are epoch milliseconds."""

    id: str
    title: str
    dsl: dict[str, Any]
    description: str = ""
    avatar: str = ""
    canvas_type: str = ""
    canvas_category: str = "agent_canvas"
    update_ms: int = 0
    create_ms: int = 0


class RemoteVersion(Struct, frozen=True):
    """A stored version of an agent's canvas."""

    id: str
    title: str
    description: str
    is_released: bool
    update_ms: int
    dsl: dict[str, Any]


class RemoteMcpServer(Struct, frozen=True):
    """An MCP server that agents can use. Its headers and variables are secret: only their names are kept."""

    id: str
    name: str
    kind: str
    url: str
    secrets: tuple[str, ...]
    tools: tuple[str, ...]


async def list_agents(api: RagflowApi) -> Sequence[Mapping[str, Any]]:
    """Return the rows of all agent canvases; those of older servers contain the canvas."""
    query = {"orderby": "create_time", "canvas_category": "agent_canvas"}
    rows = [row async for row in api.rows("/api/v1/agents", "canvas", query, limit=MAX_AGENTS)]
    return [row for row in rows if row.get("canvas_category") in (None, "", "agent_canvas")]


async def read_agent(api: RagflowApi, row: Mapping[str, Any]) -> RemoteAgent:
    """Return the agent of a row in the list, with its draft.

    Raises:
        ServiceError: if the server fails, or the agent has no id or canvas that can be used.
    """
    id_ = read_text(row, "id", max_chars=200)
    if not is_id(id_):
        raise ServiceError(f"The id {id_[:80]!r} is not an id of RAGFlow's.")
    full = row
    if not read_object(row.get("dsl")):
        try:
            full = {**row, **as_map(await api.get(f"/api/v1/agents/{id_}"))}
        except RefusalError as error:
            if error.api_code not in _GONE:
                raise
            raise ServiceError(f"{error} It may have been deleted since it was listed.") from error
    dsl = read_object(full.get("dsl"))
    if not dsl:
        raise ServiceError("RAGFlow sent no canvas.")
    if read_text(full, "id", max_chars=200) != id_:
        raise ServiceError("RAGFlow sent another agent than the one asked for.")
    return RemoteAgent(
        id_,
        read_text(full, "title", max_chars=MAX_TITLE_CHARS) or id_,
        dsl,
        read_text(full, "description", max_chars=100_000),
        read_text(full, "avatar", max_chars=1_000_000),
        read_text(full, "canvas_type", max_chars=64),
        read_text(full, "canvas_category", max_chars=32) or "agent_canvas",
        read_number(full, "update_time"),
        read_number(full, "create_time"),
    )


async def list_released(api: RagflowApi, agent_id: str) -> Sequence[RemoteVersion]:
    """Return an agent's published versions; none if the server cannot list them."""
    path = f"/api/v1/agents/{quote(agent_id, safe='')}/versions"
    try:
        rows = as_rows(await api.get(path))[:MAX_VERSIONS]
    except RefusalError as error:
        if error.is_unknown_route:
            return ()
        raise
    versions: list[RemoteVersion] = []
    for row in rows:
        id_ = read_text(row, "id", max_chars=200)
        if not row.get("release") or not is_id(id_):
            continue
        full = row if read_object(row.get("dsl")) else {**row, **as_map(await api.get(f"{path}/{id_}"))}
        if dsl := read_object(full.get("dsl")):
            title = read_text(full, "title", max_chars=MAX_TITLE_CHARS)
            about = read_text(full, "description", max_chars=10_000)
            versions.append(RemoteVersion(id_, title, about, True, read_number(full, "update_time"), dsl))
    return versions


async def list_mcp_servers(api: RagflowApi) -> Sequence[RemoteMcpServer] | None:
    """Return the MCP servers, or None if the server does not list them for an API key."""
    try:
        rows = [row async for row in api.rows("/api/v1/mcp/servers", "mcp_servers", limit=MAX_MCP_SERVERS)]
    except RefusalError as older:
        if not older.is_unknown_route:
            return None
        try:
            data = as_map(await api.send("POST", "/v1/mcp_server/list", body={"mcp_ids": []}))
        except RefusalError:
            return None
        rows = as_rows(data.get("mcp_servers"))[:MAX_MCP_SERVERS]
    return [_parse_mcp_server(row) for row in rows]


def _parse_mcp_server(row: Mapping[str, Any]) -> RemoteMcpServer:
    variables = as_map(row.get("variables"))
    secrets = [*as_map(row.get("headers")), *(name for name in variables if name != "tools")]
    return RemoteMcpServer(
        read_text(row, "id", max_chars=200),
        read_text(row, "name", max_chars=200),
        read_text(row, "server_type", max_chars=40),
        read_text(row, "url", max_chars=2_000),
        tuple(name[:80] for name in secrets[:50]),
        tuple(name[:200] for name in list(as_map(variables.get("tools")))[:500]),
    )
