"""Serving the mock application on a socket."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ragflow_lg.server.http.edge.listening_socket import QuietServer, get_url

if TYPE_CHECKING:
    import socket

    from starlette.types import ASGIApp

__all__ = ["serve", "serving"]


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
    server = _Server(app, http="h11")
    running = asyncio.create_task(server.serve(sockets=[opened]))
    try:
        yield f"{get_url(opened)}/v1"
    finally:
        server.should_exit = server.force_exit = True
        await running
        await server.end_all()


class _Server(QuietServer):
    """Does not wait for anybody when it ends."""

    async def end_all(self) -> None:
        """Break off what is still on its way."""
        for connection in list(self.server_state.connections):
            connection.transport.close()
        tasks = list(self.server_state.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
