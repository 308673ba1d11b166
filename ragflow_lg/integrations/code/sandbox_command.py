"""``ragflow-lg sandbox``: the sandbox of this machine as a service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.integrations.code.code_settings import CodeSection
from ragflow_lg.server.cli.command_line import make_group
from ragflow_lg.server.cli.options import Host, Port, SettingsFile
from ragflow_lg.server.cli.terminal import print_line, print_note

if TYPE_CHECKING:
    import socket

    from ragflow_lg.server.settings import Settings

RAGFLOW_PORT = 9385
LOCAL_HOSTS = ("127.0.0.1", "::1", "localhost")

sandbox = make_group("Run programs of CodeExec as a service.")


@sandbox.callback()
def group() -> None:
    """Run programs of CodeExec as a service."""


@sandbox.command()
def serve(host: Host = "127.0.0.1", port: Port = RAGFLOW_PORT, settings: SettingsFile = None) -> None:
    """Serve the sandbox of this machine with the contract of RAGFlow's sandbox service.

    Several servers, or RAGFlow itself, can use it. The first line of output is the URL. The limits are those under
    [code] in the settings. If api_key is set there, clients must send the key. Ctrl-C stops the server.

    Example: ragflow-lg sandbox serve --host 0.0.0.0
    """
    import asyncio

    from ragflow_lg.base.extras import require
    from ragflow_lg.server.settings import load_settings

    require("server", "`ragflow-lg sandbox serve`")
    from ragflow_lg.server.http.edge.uvicorn_server import open_socket

    config = load_settings(settings)
    if host not in LOCAL_HOSTS and not config.section(CodeSection).api_key:
        print_note("Anyone who reaches this address can run programs: set api_key in [code], or use a firewall.")
    with open_socket(host, port) as listener:
        asyncio.run(_serve(config, listener))


async def _serve(settings: Settings, listener: socket.socket) -> None:
    from contextlib import aclosing

    from ragflow_lg.adapters.workers.worker_pool import WorkerPool
    from ragflow_lg.integrations.code.open_sandbox import open_sandbox
    from ragflow_lg.integrations.code.sandbox_app import sandbox_app
    from ragflow_lg.server.http.edge import uvicorn_server
    from ragflow_lg.server.settings.server_section import ServerSection

    async def drain() -> None:
        """Wait for nothing: the programs that are running end with the server."""

    limits = settings.limits
    pool = WorkerPool(limits.workers, limits.worker_memory_bytes)
    async with aclosing(pool) as workers, open_sandbox(settings, workers, is_local=True) as chosen:
        found = await chosen.find()
        if not found.is_working:
            raise SettingsError(found.description)

        def announce(url: str) -> None:
            print_line(url)
            print_note(f"Programs run in {found.description}.")

        code = settings.section(CodeSection)
        app = sandbox_app(chosen, key=code.api_key.read(), code_bytes=code.limits.code_bytes)
        await uvicorn_server.serve(app, listener, announce, drain, ServerSection())
