"""Running the mock application on a socket."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from ragflow_lg.dsl.redaction import Redactor
from ragflow_lg.server.devtools.mock_llm.mock_llm_app import Exchange
from ragflow_lg.server.http.edge.listening_socket import QuietServer, get_url

if TYPE_CHECKING:
    import socket

    from starlette.types import ASGIApp

_MAX_CHARS = 200


class RequestLog:
    """A listener that writes a line at the end of every exchange.

    The line contains a shortened version of the last user message, but no headers or bodies.
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._start_times: dict[int, float] = {}
        self._redactor = Redactor()

    def __call__(self, exchange: Exchange) -> None:
        """Record the start of an exchange, or log its end."""
        if not exchange.end:
            self._start_times[exchange.number] = time.monotonic()
            return
        elapsed_s = time.monotonic() - self._start_times.pop(exchange.number, time.monotonic())
        self._write(json.dumps(self._row(exchange, elapsed_s), ensure_ascii=False) + "\n")

    def _row(self, exchange: Exchange, elapsed_s: float) -> dict[str, Any]:
        row: dict[str, Any] = {
            "request": exchange.number,
            "method": exchange.method,
            "path": self._redactor.text(exchange.path),
        }
        if (request := exchange.request) is not None:
            user = self._redactor.text(request.user)
            row |= {
                "model": request.model,
                "stream": request.is_stream,
                "tools": list(request.tools),
                "last_role": request.last_role,
                "user": user if len(user) <= _MAX_CHARS else user[: _MAX_CHARS - 1] + "…",
            }
        if exchange.rule:
            row |= {"rule": exchange.rule, "reply": exchange.reply}
        if exchange.problem:
            row["problem"] = self._redactor.text(exchange.problem)
        row |= {"status": exchange.status, "pieces": exchange.pieces, "end": exchange.end}
        return {**row, "elapsed_ms": round(elapsed_s * 1000)}


async def serve(app: ASGIApp, listener: socket.socket, announce: Callable[[str], object]) -> None:
    """Serve until SIGINT or SIGTERM, then stop without completing responses. Call ``announce`` with the URL."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with start_mock_server(app, listener) as url:
        announce(url)
        await stop.wait()


@asynccontextmanager
async def start_mock_server(app: ASGIApp, listener: socket.socket) -> AsyncGenerator[str]:
    """Serve inside the context, and yield the URL that clients use as ``base_url``."""
    server = _MockServer(app, http="h11")
    running = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield f"{get_url(listener)}/v1"
    finally:
        server.should_exit = server.force_exit = True
        await running
        await server.abort_connections()


class _MockServer(QuietServer):
    """A server that stops without waiting for clients."""

    async def abort_connections(self) -> None:
        """Close all connections and cancel their tasks."""
        for connection in list(self.server_state.connections):
            connection.transport.close()
        tasks = list(self.server_state.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
