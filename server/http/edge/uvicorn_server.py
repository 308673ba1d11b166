"""Serving an application on a socket until a signal arrives; runs then stop at a point where they can resume.

Each connection has a time limit for receiving a request head.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import re
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from random import random
from typing import TYPE_CHECKING, Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from ragflow_lg.base.computing_threads import lower_own_priority
from ragflow_lg.base.garbage_collector import collect_rarely
from ragflow_lg.base.portability import on_stop_signals
from ragflow_lg.base.request_notes import find_tenant
from ragflow_lg.base.tasks import work_until
from ragflow_lg.server.http.edge.fair_loop import make_fair_loop
from ragflow_lg.server.http.edge.listening_socket import QuietServer, duplicate_socket, get_url
from ragflow_lg.server.http.shared.event_stream import CONNECTION
from ragflow_lg.server.observability.audit import audit
from ragflow_lg.server.settings.server_section import ServerSection

if TYPE_CHECKING:
    import socket

    from starlette.types import ASGIApp
    from uvicorn.config import Config
    from uvicorn.server import ServerState


logger = logging.getLogger(__name__)
SWITCH_INTERVAL_S = 0.0002
"""The interpreter's thread switch interval. Database threads repeatedly wait this long for a busy event loop."""
SPREAD = 0.1
"""The share by which the time limits of connections differ, so that hundreds do not end in one moment."""
MAX_SMALL_CHUNKS, SMALL_CHUNK_BYTES = 64, 32
"""A body of more chunks than this is refused if they are smaller on average."""
_CHUNK_HEAD = re.compile(rb"([0-9A-Fa-f]{1,8})[^\r\n]{0,256}\r\n")
_HEAD_BYTES = 64 * 1024
DISCARD_BYTES = 256 * 1024
DISCARD_PAUSE_S = 0.05
"""After `DISCARD_BYTES` of a body that has been refused, reading pauses for so long."""
_DEFAULTS = ServerSection()


def build_protocol(header_s: float) -> type[asyncio.Protocol]:
    """Create a connection protocol that gives clients ``header_s`` seconds to send each request head."""

    class Protocol(_Protocol):
        header_timeout_s = header_s

    return Protocol


class _Connection(h11.Connection):
    """Refuses bodies with two lengths, in which another server may see two requests, and bodies of many small chunks.

    Each chunk takes as long as a large one, and nothing else runs meanwhile.
    """

    chunks = chunk_bytes = 0
    refusal = ""
    """Why the request was refused."""

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self.chunks = self.chunk_bytes = 0
            names = {name for name, _ in event.headers}
            if {b"content-length", b"transfer-encoding"} <= names:
                self.refusal = "A request cannot have both Content-Length and Transfer-Encoding."
                raise h11.RemoteProtocolError(self.refusal)
            if b"transfer-encoding" in names:
                # What has arrived is looked at before the application starts, and without making events of it.
                self._check_chunks(*count_chunks(self.trailing_data[0]))
        elif isinstance(event, h11.Data):
            self.chunks += 1
            self.chunk_bytes += len(event.data)
            self._check_chunks(self.chunks, self.chunk_bytes)
        return event

    def _check_chunks(self, chunks: int, chunk_bytes: int) -> None:
        if chunks > MAX_SMALL_CHUNKS and chunk_bytes < chunks * SMALL_CHUNK_BYTES:
            self.refusal = "The body has too many small chunks."
            raise h11.RemoteProtocolError(self.refusal)


def count_chunks(data: bytes) -> tuple[int, int]:
    """Return the number of chunks at the beginning of a chunked body, and their bytes: at most one more than allowed.

    Counting stops at anything that is no chunk.
    """
    chunks = chunk_bytes = start = 0
    while chunks <= MAX_SMALL_CHUNKS and (head := _CHUNK_HEAD.match(data, start)):
        size = int(head[1], 16)
        start = head.end() + size + 2
        chunks, chunk_bytes = chunks + 1, chunk_bytes + size
    return chunks, chunk_bytes


class _Signal:
    """An `asyncio.Event` that takes memory only while somebody waits. An open stream has two, of 0.8 kB each."""

    __slots__ = ("_is_set", "_waiter")

    def __init__(self, *, is_set: bool) -> None:
        self._is_set = is_set
        self._waiter: asyncio.Event | None = None

    def set(self) -> None:
        self._is_set = True
        if self._waiter is not None:
            self._waiter.set()
            self._waiter = None

    def clear(self) -> None:
        self._is_set = False

    async def wait(self) -> None:
        if not self._is_set:
            self._waiter = self._waiter or asyncio.Event()
            await self._waiter.wait()


class _Protocol(H11Protocol):
    """A `ragflow_lg.server.http.shared.event_stream.Connection`."""

    header_timeout_s = 10.0
    is_lost = False
    on_lost: Callable[[], object] | None = None

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.timeout_keep_alive *= 1 + SPREAD * random()
        self.conn: _Connection = _Connection(h11.SERVER, config.h11_max_incomplete_event_size or _HEAD_BYTES)
        self._timer: asyncio.TimerHandle | None = None
        self._discarded_bytes = 0
        """How much of a body that nobody reads has arrived since the last pause."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        flow: Any = self.flow
        flow._is_writable_event = _Signal(is_set=True)
        self._start_timer()

    def handle_events(self) -> None:
        super().handle_events()
        cycle: Any = self.cycle
        if cycle is not None and CONNECTION not in cycle.scope:  # it starts when this method has ended
            cycle.scope[CONNECTION] = self
            cycle.message_event = _Signal(is_set=cycle.message_event.is_set())

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._has_unread_body():
            self._ensure_timer()
            self._discard(len(data))
        elif self.conn.their_state is not h11.IDLE:
            self._stop_timer()
        elif self.conn.trailing_data[0] and self._timer is None:
            self._start_timer()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._has_unread_body():
            self._ensure_timer()

    def abort(self) -> None:
        """End the connection at once, without what has not been sent."""
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)
        self.is_lost = True
        if self.on_lost is not None:
            self.on_lost()

    def send_400_response(self, msg: str) -> None:
        self._stop_timer()
        self._log_refusal(self.conn.refusal or "malformed or oversized request head")
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(self.conn.refusal or msg)
        else:  # the response has begun
            self.transport.close()

    def _has_unread_body(self) -> bool:
        """Return whether the response was sent before the body arrived, so that nothing will read the body."""
        return self.conn.their_state is h11.SEND_BODY and self.cycle.response_complete

    def _discard(self, size: int) -> None:
        """Limit the rate at which such a body arrives. At full speed it would keep the event loop from others."""
        self._discarded_bytes += size
        if self._discarded_bytes >= DISCARD_BYTES:
            self._discarded_bytes = 0
            self.flow.pause_reading()
            self.loop.call_later(DISCARD_PAUSE_S, self._resume_reading)

    def _resume_reading(self) -> None:
        if not self.transport.is_closing():
            self.flow.resume_reading()

    def _ensure_timer(self) -> None:
        if self._timer is None:
            self._start_timer()

    def _start_timer(self) -> None:
        delay_s = self.header_timeout_s * (1 + SPREAD * random())
        self._timer = self.loop.call_later(delay_s, self._close)

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
    """Run a server coroutine in an event loop in which tenants take turns: of uvloop if it is available."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    collect_rarely()
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        lower_threads(runner.get_loop())
        runner.run(main)


def lower_threads(loop: asyncio.AbstractEventLoop) -> None:
    """Run the work that an event loop gives to threads in threads of a lower priority.

    Such a thread computes while the processor is free, so that others notice little of a tenant's large values.
    """
    loop.set_default_executor(ThreadPoolExecutor(thread_name_prefix="asyncio", initializer=lower_own_priority))


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # it is not available on Windows
        plain = asyncio.new_event_loop()
        plain.close()
        return make_fair_loop(type(plain), find_tenant)
    return make_fair_loop(uvloop.Loop, find_tenant)


def freeze_objects() -> None:
    """Exempt all current objects from garbage collection, because a collection would pause every stream.

    A collection before would take 0.2 s to find a few objects, because imports leave almost no garbage.
    """
    gc.freeze()


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
        freeze_objects()
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
    server_task = asyncio.create_task(server.serve(sockets=duplicate_socket(listener)))
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
