"""A server on a free port of 127.0.0.1, with a scripted model."""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import httpx
from msgspec import Struct, field
from msgspec.structs import replace
from pydantic import SecretStr

from ragflow_lg.adapters.system_services import RandomIds, SystemClock
from ragflow_lg.checkpoints import open_store
from ragflow_lg.integrations.sql.configured_databases import make_databases
from ragflow_lg.runs.callbacks import RunCallbacks
from ragflow_lg.server.assembly.app_state import AppState, open_run_manager
from ragflow_lg.server.assembly.tenant_resources import TenantResources
from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.database import open_database
from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.server.database.session_repository import RunRepository, SessionRepository
from ragflow_lg.server.database.tables import AgentRow, RunRow, SessionRow
from ragflow_lg.server.http.app import make_app
from ragflow_lg.server.http.edge.uvicorn_server import open_socket, start_server
from ragflow_lg.server.settings import Settings
from ragflow_lg.server.settings.sections import HttpSection
from ragflow_lg.server.settings.server_section import ServerSection
from ragflow_lg.services.databases import Databases
from ragflow_lg.services.workers import NoWorkers
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
    tenant: str = "tenant"
    agents: int = 0
    others: AsyncExitStack = field(default_factory=AsyncExitStack)
    """What is closed with the server: its further clients."""

    async def new_key(self, tenant: str = "tenant", **values: Any) -> str:
        """Return a new key of this tenant or of another one, which only this test uses."""
        name = self.tenant.replace("tenant", tenant)
        return await KeyRepository(self.app_state.database).create(name, 1, **values)

    def stranger(self) -> httpx.AsyncClient:
        """Return a client of the whole server without a key, which is closed with this one."""
        client = httpx.AsyncClient(base_url=self.url, timeout=60)
        self.others.push_async_callback(client.aclose)
        return client

    @property
    def running(self) -> Any:
        """The runs in progress."""
        return self.app_state.run_manager._tasks  # pyright: ignore[reportPrivateUsage]

    async def page(self, **values: Any) -> dict[str, str]:
        """Return the headers of a visitor with a new key of embedded pages."""
        return {"Authorization": f"Bearer {await self.new_key(kind='beta', **values)}"}

    async def run_row(self, run_id: str) -> RunRow:
        row = await RunRepository(self.app_state.database, self.tenant).get(run_id)
        assert row is not None
        return row

    async def agent_row(self, agent_id: str) -> AgentRow:
        row = await AgentRepository(self.app_state.database, self.tenant).get(agent_id)
        assert row is not None
        return row

    async def session_row(self, session_id: str) -> SessionRow:
        row = await SessionRepository(self.app_state.database, self.tenant).get(session_id)
        assert row is not None
        return row

    async def opened(self, dsl: dict[str, Any]) -> tuple[AgentRow, SessionRow]:
        """Return the rows of a new agent and a session of it."""
        agent_id = await self.agent(dsl)
        return await self.agent_row(agent_id), await self.session_row(await self.session(agent_id))

    async def texts(self, session_id: str) -> list[str]:
        """Return the messages of a session."""
        messages = await SessionRepository(self.app_state.database, self.tenant).messages([session_id])
        return [message.content for message in messages[session_id]]

    async def get(self, path: str, **options: Any) -> Any:
        return (await self.client.get(path, **options)).json()

    async def post(self, path: str, body: Any = None, **options: Any) -> Any:
        return (await self.client.post(path, json=body, **options)).json()

    async def put(self, path: str, body: Any = None, **options: Any) -> Any:
        return (await self.client.put(path, json=body, **options)).json()

    async def delete(self, path: str, **options: Any) -> Any:
        return (await self.client.delete(path, **options)).json()

    async def agent(self, dsl: dict[str, Any], title: str = "", **values: Any) -> str:
        """Create an agent, by default Helper, Helper 2 and so on."""
        if not title:
            self.agents += 1
            title = "Helper" if self.agents == 1 else f"Helper {self.agents}"
        made = await self.post("/agents", {"title": title, "dsl": dsl, **values})
        assert made["code"] == 0, made
        return made["data"]["id"]

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
        section["database"] = SecretStr(f"sqlite:///{await copy_database(folder)}")
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
        memories=memories,
        integrations={Databases: make_databases(settings, NoWorkers())},
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
            server = AppServer(address, key, app_state, model, client, app.state.turns, app.state.operations, app)
            async with server.others:
                yield server


_tenants = count(1)


@asynccontextmanager
async def open_tenant(shared: AppServer) -> AsyncGenerator[AppServer]:
    """Yield a running server with a new tenant, client and model."""
    tenant = f"tenant{next(_tenants)}"
    models: Any = shared.app_state.services.models
    models.chat = ScriptedModel()
    key = await KeyRepository(shared.app_state.database).create(tenant, 1)
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=shared.client.base_url, headers=headers, timeout=60) as client:
        server = replace(
            shared, key=key, model=models.chat, client=client, tenant=tenant, agents=0, others=AsyncExitStack()
        )
        async with server.others:
            yield server


_migrated: list[bytes] = []
"""The content of a database with all tables and no rows, once it is known. Migrating takes a tenth of a second."""


async def copy_database(folder: Path) -> Path:
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


def says(text: str, begin: dict[str, Any] | None = None) -> dict[str, Any]:
    """Build a canvas of one Message."""
    return canvas(("begin", "Begin", begin or {}, ["Message:0"]), ("Message:0", "Message", {"content": [text]}, []))


def asks(prompt: str, begin: dict[str, Any] | None = None, llm_id: str = "m") -> dict[str, Any]:
    """Build a canvas of one model and the Message of its answer."""
    return canvas(
        ("begin", "Begin", begin or {}, ["LLM:0"]),
        ("LLM:0", "LLM", {"llm_id": llm_id, "prompts": [{"role": "user", "content": prompt}]}, ["Message:0"]),
        ("Message:0", "Message", {"content": ["{LLM:0@content}"]}, []),
    )


def asks_size(text: str) -> dict[str, Any]:
    """Build a canvas of a form and a Message."""
    inputs = {"size": {"name": "Size", "type": "integer"}}
    return canvas(
        ("begin", "Begin", {}, ["UserFillUp:0"]),
        ("UserFillUp:0", "UserFillUp", {"enable_tips": True, "tips": "Which size?", "inputs": inputs}, ["Message:0"]),
        ("Message:0", "Message", {"content": [text]}, []),
    )


ECHO = says("You said {sys.query}", {"prologue": "Hi there!"})
FORM = asks_size("Size {UserFillUp:0@size}")
MODEL = asks("{sys.query}")
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

_HELPER = {"component_name": "Agent", "name": "Helper", "params": {"llm_id": "m@Test"}}
_CAREFUL = {"llm_id": "m@Test", "prompts": "{sys.query}", "tools": [_HELPER], "ask_tools": ["Agent"], "cite": False}
APPROVING = canvas(
    ("begin", "Begin", {}, ["Agent:0"]),
    ("Agent:0", "Agent", _CAREFUL, ["Message:0"]),
    ("Message:0", "Message", {"content": ["{Agent:0@content}"]}, []),
)
"""An agent that asks before it calls another one."""
