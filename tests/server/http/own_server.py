"""A server as `ragflow-lg serve` starts it: with the services of its settings, and what the page adds to them."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from pydantic import SecretStr

from ragflow_lg.server.assembly.app_state import open_app_state
from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.server.http.app import make_app
from ragflow_lg.server.http.edge.uvicorn_server import open_socket, start_server
from ragflow_lg.server.settings import Settings
from ragflow_lg.server.settings.server_section import ServerSection
from tests.fakes.services import ScriptedModel
from tests.server.http.app_server import AppServer, copy_database

OWNER = "default"


@asynccontextmanager
async def start_own_server(
    folder: Path, *, model: str = "", sections: dict[str, Any] | None = None, **section: Any
) -> AsyncGenerator[AppServer]:
    """Start a server whose data is in a folder. Its key is one of the tenant that owns the settings."""
    database = SecretStr(f"sqlite:///{await copy_database(folder)}")
    settings = Settings(
        checkpoints="memory://",
        server=ServerSection(database=database, files=folder / "files", **section),
        **{"knowledge": {"url": f"sqlite:///{folder / 'knowledge.db'}"}, **(sections or {})},
    )
    async with open_app_state(settings, model=model) as app_state:
        app = make_app(app_state)
        key = await KeyRepository(app_state.database).create(OWNER, 1)
        listener, drain = open_socket("127.0.0.1", 0), app.state.turns.playing.drain
        async with (
            start_server(app, listener, drain, 5, section=settings.server) as address,
            httpx.AsyncClient(
                base_url=f"{address}/api/v1", headers={"Authorization": f"Bearer {key}"}, timeout=60
            ) as client,
        ):
            parts = (ScriptedModel(), client, app.state.turns, app.state.operations, app)
            server = AppServer(address, key, app_state, *parts, tenant=OWNER)
            async with server.others:
                yield server
