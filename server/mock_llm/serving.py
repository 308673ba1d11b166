"""Serving the mock application on a socket."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import uvicorn

from ragflow_lg.errors import SettingsError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

__all__ = ["listening", "serve", "serving"]

_BACKLOG = 1024
_KEEP_ALIVE_S = 75


def listening(host: str, port: int) -> socket.socket:
    """Open the socket; port 0 takes a free one.

    Raises:
        SettingsError: if the address cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise SettingsError(
            f"Nothing can listen at {host} port {port}: {reason}. `--port 0` takes a free port."
        ) from None


async def serve(app: ASGIApp, opened: socket.socket, announce: Callable[[str], object]) -> None:
    """Serve until SIGINT or SIGTERM, then end at once, whatever is on its way; ``announce`` is told the URL."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with serving(app, opened) as url:
        announce(url)
        await stop.wait()


@asynccontextmanager
async def serving(app: ASGIApp, opened: socket.socket) -> AsyncGenerator[str]:
    """Serve meanwhile; give the URL that clients take as ``base_url``."""
    config = uvicorn.Config(
        app,
        http="h11",
        loop="asyncio",
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        timeout_keep_alive=_KEEP_ALIVE_S,
        server_header=False,
    )
    server = _Server(config)
    host, port = opened.getsockname()[:2]
    running = asyncio.create_task(server.serve(sockets=[opened]))
    try:
        yield f"http://[{host}]:{port}/v1" if ":" in host else f"http://{host}:{port}/v1"
    finally:
        server.should_exit = server.force_exit = True
        await running
        await server.end_all()


class _Server(uvicorn.Server):
    """Leaves the signals to whoever runs it, and does not wait for anybody when it ends."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def end_all(self) -> None:
        """Break off what is still on its way."""
        for connection in list(self.server_state.connections):
            connection.transport.close()
        tasks = list(self.server_state.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
