"""Serving an application on a socket until a signal arrives; runs then stop at a point where they can resume.

Each connection has a time limit for receiving a request head.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import h11
from uvicorn.loops.auto import auto_loop_factory
from uvicorn.protocols.http.h11_impl import H11Protocol

from ragflow_lg.base.portability import on_stop_signals
from ragflow_lg.base.tasks import work_until
from ragflow_lg.server.http.edge.listening_socket import QuietServer, get_url
from ragflow_lg.server.observability.audit import audit
from ragflow_lg.server.settings.server_section import ServerSection

if TYPE_CHECKING:
    import socket

    from starlette.types import ASGIApp


logger = logging.getLogger(__name__)
THREADS = 64
"""How many calls wait in threads at the same time, such as for files and functions of tools."""
_DEFAULTS = ServerSection()


def build_protocol(header_s: float) -> type[asyncio.Protocol]:
    """Create a connection protocol that gives clients ``header_s`` seconds to send each request head."""

    class Protocol(_Protocol):
        header_timeout_s = header_s

    return Protocol


class _Protocol(H11Protocol):
    header_timeout_s = 10.0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self.transport.is_closing():
            self._limit_time()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._limit_time()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        self._stop_timer()
        self._log_refusal("malformed or oversized request")
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:  # the response has begun
            self.transport.close()

    def _limit_time(self) -> None:
        """Limit the time for a request head, and for the body of a request that has been answered already."""
        is_head = self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]
        is_unread = self.conn.their_state is h11.SEND_BODY and self.cycle.response_complete
        if not (is_head or is_unread):
            self._stop_timer()
        elif self._timer is None:
            self._start_timer()

    def _start_timer(self) -> None:
        self._timer = self.loop.call_later(self.header_timeout_s, self._close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close(self) -> None:
        self._timer = None
        self._log_refusal(f"incomplete request after {self.header_timeout_s:g} s")
        self.transport.close()

    def _log_refusal(self, reason: str) -> None:
        address = self.client[0] if self.client else ""
        logger.warning("connection from %s refused: %s", address, reason)
        audit("connection.refused", address=address, reason=reason)


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a server coroutine in an event loop: of uvloop, if it is available."""
    with asyncio.Runner(loop_factory=auto_loop_factory()) as runner:
        runner.get_loop().set_default_executor(ThreadPoolExecutor(THREADS))
        runner.run(main)


async def serve(
    app: ASGIApp,
    listener: socket.socket,
    announce: Callable[[str], object],
    drain: Callable[[], Awaitable[None]],
    section: ServerSection,
) -> None:
    """Serve until SIGINT or SIGTERM. ``announce`` receives the URL. A second signal skips draining."""
    stop, stop_now = on_stop_signals()
    async with start_server(app, listener, drain, section.drain_s, stop_now, section) as url:
        announce(url)
        await stop.wait()


@asynccontextmanager
async def start_server(
    app: ASGIApp,
    listener: socket.socket,
    drain: Callable[[], Awaitable[None]],
    drain_s: float,
    stop_now: asyncio.Event | None = None,
    section: ServerSection = _DEFAULTS,
) -> AsyncGenerator[str]:
    """Serve inside the context, and yield the URL. On exit, stop accepting connections and drain runs for ``drain_s``.

    ``section`` contains the connection limits; ``stop_now`` ends draining early.
    """
    server = _Server(
        app,
        http=build_protocol(section.header_timeout_s),
        h11_max_incomplete_event_size=section.max_header_bytes,
        proxy_headers=bool(section.trusted_proxies),
        forwarded_allow_ips=list(section.trusted_proxies),
        timeout_graceful_shutdown=1,
    )
    server_task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield get_url(listener)
    finally:
        server.stop_listening()
        await work_until(drain(), stop_now or asyncio.Event(), drain_s)
        server.should_exit = True
        await server_task


class _Server(QuietServer):
    def stop_listening(self) -> None:
        """Stop accepting connections; open ones continue."""
        for listener in self.servers if self.started else ():
            listener.close()
