import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import httpx

from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.server.assembly.app_state import open_app_state
from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.server.http.app import make_app
from ragflow_lg.server.http.edge.uvicorn_server import open_socket, start_server
from ragflow_lg.server.settings import load_settings
from tests.server.cli.command import Completed, call


async def command(*arguments: str | Path) -> Completed:
    """Run a command in a thread, so that a server in this loop can answer it."""
    return await asyncio.to_thread(call, *arguments)


async def pull(url: str, *options: str | Path, folder: str = "moved") -> Completed:
    """Pull from a server on this machine."""
    return await command("pull", "--from", url, "--key-env", "THEIR_KEY", "--allow-private", folder, *options)


async def open_here(stack: AsyncExitStack) -> httpx.AsyncClient:
    """Start the server of the folder, as ``ragflow-lg serve`` does there."""
    state = await stack.enter_async_context(open_app_state(load_settings(Path("ragflow-lg.toml")), model="demo"))
    app = make_app(state)
    key = await KeyRepository(state.database).create("default", int(SystemClock().now()))
    running = start_server(app, open_socket("127.0.0.1", 0), app.state.turns.playing.drain, 5)
    url = await stack.enter_async_context(running)
    headers = {"Authorization": f"Bearer {key}"}
    return await stack.enter_async_context(httpx.AsyncClient(base_url=f"{url}/api/v1", headers=headers, timeout=20))
