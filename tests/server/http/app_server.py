"""A server on a free port of 127.0.0.1, with a scripted model."""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from msgspec import Struct
from pydantic import SecretStr

from ragflow_lg.adapters.system_services import RandomIds, SystemClock
from ragflow_lg.checkpoints import open_store
from ragflow_lg.runs.callbacks import RunCallbacks
from ragflow_lg.server.assembly.app_state import AppState, open_run_manager
from ragflow_lg.server.assembly.tenant_resources import TenantResources
from ragflow_lg.server.database.database import open_database
from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.server.http.app import make_app
from ragflow_lg.server.http.edge.uvicorn_server import open_socket, start_server
from ragflow_lg.server.settings import Settings
from ragflow_lg.server.settings.sections import HttpSection
from ragflow_lg.server.settings.server_section import ServerSection
from ragflow_lg.services.memories import NoMemories
from tests.fakes.services import OneModel, Reply, ScriptedModel, fake_services


class AppServer(Struct):
    url: str
    key: str
    app_state: AppState
    model: ScriptedModel
    client: httpx.AsyncClient
    turns: Any
    operations: Any
    app: Any

    async def agent(self, dsl: dict[str, Any], title: str = "Helper", **values: Any) -> str:
        made = await self.client.post("/agents", json={"title": title, "dsl": dsl, **values})
        assert made.json()["code"] == 0, made.text
        return made.json()["data"]["id"]

    async def session(self, agent_id: str, **values: Any) -> str:
        return (await self.client.post(f"/agents/{agent_id}/sessions", json=values)).json()["data"]["id"]

    async def ask(self, agent_id: str, query: str = "hello", **values: Any) -> Any:
        body = {"agent_id": agent_id, "query": query, **values}
        return (await self.client.post("/agents/chat/completions", json=body)).json()

    async def stream(self, agent_id: str, query: str = "hello", *, path: str = "", **values: Any) -> list[Any]:
        body = {"agent_id": agent_id, "query": query, "stream": True, **values}
        answer = await self.client.post(path or "/agents/chat/completions", json=body)
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8", answer.text
        return frames(answer.text)


def frames(text: str) -> list[Any]:
    """Parse RAGFlow's frames without comments; the last one must be ``[DONE]``."""
    assert text.endswith("data:[DONE]\n\n")
    lines = [line for line in text.removesuffix("\n\n").split("\n\n") if not line.startswith(":")]
    assert all(line.startswith("data:") and not line.startswith("data: ") for line in lines)
    return [json.loads(line[5:]) for line in lines[:-1]]


@asynccontextmanager
async def start_app(
    folder: Path,
    replies: Sequence[Reply] = (),
    *,
    callbacks: Sequence[RunCallbacks] = (),
    knowledge: Any = None,
    http: HttpSection | None = None,
    servers: Mapping[str, Any] = {},
    memories: Any = None,
    sections: Mapping[str, Any] = {},
    shares_nothing: bool = False,
    checkpoints: str = "memory://",
    **section: Any,
) -> AsyncGenerator[AppServer]:
    """Start a server. ``section`` is its own section of the settings, ``sections`` are the others.

    With ``shares_nothing``, tenants may use only what their sections name, as on a server that has several tenants.
    """
    if "database" not in section:
        section["database"] = SecretStr(f"sqlite:///{await _copy_database(folder)}")
    section.setdefault("files", folder / "files")
    section.setdefault("busy_s", 0.1)
    settings = Settings(
        checkpoints=checkpoints, server=ServerSection(**section), http=http or HttpSection(), **sections
    )
    url = settings.server.database.get_secret_value()
    model = ScriptedModel(list(replies))
    services = fake_services(
        models=OneModel(model),
        clock=SystemClock(),
        ids=RandomIds(),
        knowledge=knowledge,
        servers=servers,
        memories=memories or NoMemories(),
    )
    async with (
        open_store(checkpoints, **settings.store_options) as store,
        open_database(url, store.keys) as database,
        open_run_manager(settings, store) as run_manager,
    ):
        resources = TenantResources(settings, services) if shares_nothing else None
        app_state = AppState(settings, database, store, services, run_manager, callbacks, resources)
        app = make_app(app_state)
        key = await KeyRepository(database).create("tenant", 1)
        async with (
            start_server(
                app, open_socket("127.0.0.1", 0), app.state.turns.playing.drain, 5, section=settings.server
            ) as address,
            httpx.AsyncClient(
                base_url=f"{address}/api/v1", headers={"Authorization": f"Bearer {key}"}, timeout=60
            ) as client,
        ):
            yield AppServer(address, key, app_state, model, client, app.state.turns, app.state.operations, app)


_migrated: list[bytes] = []
"""The content of a database with all tables and no rows, once it is known. Migrating takes a tenth of a second."""


async def _copy_database(folder: Path) -> Path:
    """Write an empty database to the folder, unless it has one."""
    path = folder / "server.db"
    if not path.exists():
        if not _migrated:
            async with open_database(f"sqlite:///{path}"):
                pass
            _migrated.append(path.read_bytes())
        path.write_bytes(_migrated[0])
    return path


def canvas(*nodes: tuple[str, str, dict[str, Any], list[str]]) -> dict[str, Any]:
    """Build a canvas from ``(id, component, params, downstream)``; the first is Begin."""
    return {
        "components": {
            id_: {"obj": {"component_name": name, "params": params}, "downstream": downstream}
            for id_, name, params, downstream in nodes
        }
    }


ECHO = canvas(
    ("begin", "Begin", {"prologue": "Hi there!"}, ["Message:0"]),
    ("Message:0", "Message", {"content": ["You said {sys.query}"]}, []),
)
FORM = canvas(
    ("begin", "Begin", {}, ["UserFillUp:0"]),
    (
        "UserFillUp:0",
        "UserFillUp",
        {"enable_tips": True, "tips": "Which size?", "inputs": {"size": {"name": "Size", "type": "integer"}}},
        ["Message:0"],
    ),
    ("Message:0", "Message", {"content": ["Size {UserFillUp:0@size}"]}, []),
)
MODEL = canvas(
    ("begin", "Begin", {}, ["LLM:0"]),
    ("LLM:0", "LLM", {"llm_id": "m", "prompts": [{"role": "user", "content": "{sys.query}"}]}, ["Message:0"]),
    ("Message:0", "Message", {"content": ["{LLM:0@content}"]}, []),
)
CITING = canvas(
    ("begin", "Begin", {"prologue": "Hi there!"}, ["Retrieval:0"]),
    ("Retrieval:0", "Retrieval", {"dataset_ids": ["ds1"], "query": "sys.query"}, ["LLM:0"]),
    (
        "LLM:0",
        "LLM",
        {"llm_id": "m", "cite": True, "prompts": [{"role": "user", "content": "{Retrieval:0@formalized_content}"}]},
        ["Message:0"],
    ),
    ("Message:0", "Message", {"content": ["{LLM:0@content}"]}, []),
)
RETRYING = canvas(
    ("begin", "Begin", {}, ["LLM:0"]),
    ("LLM:0", "LLM", {"llm_id": "m", "prompts": "x", "max_retries": 1, "delay_after_error": 0}, ["Message:0"]),
    ("Message:0", "Message", {"content": ["<{LLM:0@content}>"]}, []),
)
BROKEN = canvas(
    ("begin", "Begin", {}, ["LLM:0"]),
    ("LLM:0", "LLM", {"llm_id": "m", "prompts": [{"role": "user", "content": "{sys.query}"}]}, ["StringTransform:0"]),
    ("StringTransform:0", "StringTransform", {"method": "merge", "script": "{LLM:0@content}"}, ["Message:0"]),
    ("Message:0", "Message", {"content": ["{StringTransform:0@result}"]}, []),
)
