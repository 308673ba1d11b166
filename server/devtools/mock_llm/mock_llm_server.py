"""Running the mock application on a socket."""

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

__all__ = ["serve", "start_mock_server"]


async def serve(app: ASGIApp, listener: socket.socket, announce: Callable[[str], object]) -> None:
    """Serve until SIGINT or SIGTERM, then end at once without completing responses. Call ``announce`` with the URL."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with start_mock_server(app, listener) as url:
        announce(url)
        await stop.wait()


@asynccontextmanager
async def start_mock_server(app: ASGIApp, listener: socket.socket) -> AsyncGenerator[str]:
    """Serve inside the context; yield the URL for the ``base_url`` of clients."""
    server = _MockServer(app, http="h11")
    running = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield f"{get_url(listener)}/v1"
    finally:
        server.should_exit = server.force_exit = True
        await running
        await server.abort_connections()


class _MockServer(QuietServer):
    """A server that ends without waiting for clients."""

    async def abort_connections(self) -> None:
        """Close all connections and cancel their tasks."""
        for connection in list(self.server_state.connections):
            connection.transport.close()
        tasks = list(self.server_state.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
