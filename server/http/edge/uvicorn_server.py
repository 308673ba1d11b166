"""Serving an application on a socket until a signal arrives; runs then stop at a point where they can resume.

Each connection has a time limit for receiving a request head.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import h11
import uvicorn
from uvicorn.loops.auto import auto_loop_factory
from uvicorn.protocols.http.h11_impl import H11Protocol

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.portability import on_stop_signals
from ragflow_lg.base.tasks import work_until
from ragflow_lg.server.http.edge.request_middleware import MAX_HEADER_BYTES
from ragflow_lg.server.observability.logs import audit
from ragflow_lg.server.settings.server_section import ServerSection

if TYPE_CHECKING:
    import socket

    from starlette.types import ASGIApp


_BACKLOG = 1024
_KEEP_ALIVE_S = 75


def open_socket(host: str, port: int, option: str = "--port") -> socket.socket:
    """Open a listening socket. Port 0 selects a free port. ``option`` is what sets the port.

    Raises:
        SettingsError: if the address is invalid or in use.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        reason, _, _ = (getattr(error, "strerror", None) or str(error)).lower().partition(" (while attempting")
        advice = "Name an address of this machine."
        if error.args and error.args[0] in {errno.EADDRINUSE, errno.EACCES}:
            advice = f"Choose another {option}, or 0 for a free port."
        raise SettingsError(f"Cannot listen on {host} port {port}: {reason}. {advice}") from None
    # Connections inherit it. asyncio sets it only on sockets whose protocol is named, which this one's are not. Without
    # it, the second part of a response waits until the client has acknowledged the first one: for 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def get_url(listener: socket.socket) -> str:
    """Return the URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class QuietServer(uvicorn.Server):
    """A uvicorn server that installs no signal handlers and writes no log."""

    def __init__(self, app: ASGIApp, **options: Any) -> None:
        """Create the server. ``options`` are passed to `uvicorn.Config`."""
        super().__init__(
            uvicorn.Config(
                app,
                loop="asyncio",  # uses the loop that is already running
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="critical",
                access_log=False,
                timeout_keep_alive=_KEEP_ALIVE_S,
                server_header=False,
                **options,
            )
        )

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave signals to the caller."""
        yield


logger = logging.getLogger(__name__)
THREADS = 64
"""How many calls wait in threads at the same time, such as for files and functions of tools."""
_DEFAULTS = ServerSection()

HEADER_S = 10.0
"""How long a client may take to send the head of a request."""


class _Protocol(H11Protocol):
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
        self._timer = self.loop.call_later(HEADER_S, self._close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close(self) -> None:
        self._timer = None
        self._log_refusal(f"incomplete request after {HEADER_S:g} s")
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
    server = QuietServer(
        app,
        http=_Protocol,
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        proxy_headers=bool(section.trusted_proxies),
        forwarded_allow_ips=list(section.trusted_proxies),
        timeout_graceful_shutdown=1,
    )
    server_task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        yield get_url(listener)
    finally:
        for open_listener in server.servers if server.started else ():
            open_listener.close()  # open connections continue
        await work_until(drain(), stop_now or asyncio.Event(), drain_s)
        server.should_exit = True
        await server_task
