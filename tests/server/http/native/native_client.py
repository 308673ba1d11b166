"""Clients of the native API of a server, and readers of its responses."""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.fakes.services import Reply
from tests.server.http.app_server import AppServer, start_app

PREFIX = "/native/v1"


def native(server: AppServer, agent_id: str = "") -> httpx.AsyncClient:
    """Return a client with the base path of the native API, or of an agent in it. It is closed with the server."""
    base = f"{server.url}{PREFIX}" + (f"/agents/{agent_id}" if agent_id else "")
    client = httpx.AsyncClient(base_url=base, headers={"Authorization": f"Bearer {server.key}"}, timeout=60)
    server.others.push_async_callback(client.aclose)
    return client


async def play_one(
    server: AppServer, dsl: dict[str, Any], *texts: str, query: str = "hi"
) -> tuple[httpx.AsyncClient, dict[str, Any]]:
    """Play a turn of a new agent, whose model answers with the texts. Return a client of the agent, and the run."""
    server.model.replies += [Reply(text) for text in texts]
    client = native(server, await server.agent(dsl))
    return client, (await client.post("/runs", json={"query": query})).json()


@asynccontextmanager
async def native_agent(
    folder: Path, dsl: dict[str, Any], replies: Sequence[Reply] = (), **section: Any
) -> AsyncGenerator[tuple[AppServer, httpx.AsyncClient]]:
    """Start a server with one agent; yield the server and a client of that agent."""
    async with start_app(folder, replies, **section) as server, native(server, await server.agent(dsl)) as client:
        yield server, client


def problem(answer: httpx.Response) -> tuple[int, str]:
    """Return the status and the code of a problem."""
    error = answer.json()["error"]
    assert error["status"] == answer.status_code
    assert error["message"]
    return answer.status_code, error["code"]


def frames(text: str) -> list[tuple[str, str, Any]]:
    """Parse a stream into the id, event and data of each frame; comments and `retry` are skipped."""
    parsed: list[tuple[str, str, Any]] = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
        if "data" in fields:
            parsed.append((fields.get("id", ""), fields["event"], json.loads(fields["data"])))
    return parsed
