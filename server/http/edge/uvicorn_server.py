"""Serving the application on a socket, until somebody asks for an end; runs then stop where they can go on."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from ragflow_lg.server.http.edge.connections import build_protocol
from ragflow_lg.server.http.edge.listening_socket import QuietServer, get_url
from ragflow_lg.server.settings import ServerSection

if TYPE_CHECKING:
    import socket

    from starlette.types import ASGIApp

__all__ = ["freeze_objects", "run", "serve", "start_server"]

COLLECTING = (20_000, 20, 50)
"""How many new objects, and then collections, bring about a collection: a whole one takes a tenth of a second."""
SWITCH_S = 0.001
"""How long a thread of the database waits for the interpreter while the event loop is busy. Each trip waits often."""
_DEFAULTS = ServerSection()


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a server's coroutine, on the quicker event loop where there is one."""
    factory = None
    if sys.platform != "win32":
        import uvloop

        factory = uvloop.new_event_loop
    sys.setswitchinterval(SWITCH_S)
    gc.set_threshold(*COLLECTING)
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main)


def freeze_objects() -> None:
    """Take what is there for what stays: to look for garbage in it again and again would hold all streams up."""
    gc.collect()
    gc.freeze()


async def serve(
    app: ASGIApp,
    opened: socket.socket,
    announce: Callable[[str], object],
    drain: Callable[[], Awaitable[None]],
    section: ServerSection,
) -> None:
    """Serve until SIGINT or SIGTERM; ``announce`` is told the URL. A second signal ends it at once."""
    stop, stop_now = asyncio.Event(), asyncio.Event()

    def asked() -> None:
        (stop_now if stop.is_set() else stop).set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked)
    async with start_server(app, opened, drain, section.drain_s, stop_now, section) as url:
        freeze_objects()
        announce(url)
        await stop.wait()


@asynccontextmanager
async def start_server(
    app: ASGIApp,
    opened: socket.socket,
    drain: Callable[[], Awaitable[None]],
    drain_s: float,
    stop_now: asyncio.Event | None = None,
    section: ServerSection = _DEFAULTS,
) -> AsyncGenerator[str]:
    """Serve meanwhile and give the URL. At the end no new connection is taken, and runs have ``drain_s`` to stop.

    ``section`` has the limits of connections.
    """
    server = _Server(
        app,
        http=build_protocol(section.header_timeout_s),
        h11_max_incomplete_event_size=section.max_header_bytes,
        proxy_headers=bool(section.trusted_proxies),
        forwarded_allow_ips=list(section.trusted_proxies),
        timeout_graceful_shutdown=1,
    )
    running = asyncio.create_task(server.serve(sockets=[opened]))
    try:
        yield get_url(opened)
    finally:
        server.stop_listening()
        await _drained(drain, drain_s, stop_now or asyncio.Event())
        server.should_exit = True
        await running


async def _drained(drain: Callable[[], Awaitable[None]], drain_s: float, stop_now: asyncio.Event) -> None:
    draining = asyncio.ensure_future(drain())
    hurrying = asyncio.create_task(stop_now.wait())
    await asyncio.wait({draining, hurrying}, timeout=drain_s, return_when=asyncio.FIRST_COMPLETED)
    for task in (draining, hurrying):
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class _Server(QuietServer):
    def stop_listening(self) -> None:
        """Take no more connections; those there are go on."""
        for listener in self.servers if self.started else ():
            listener.close()
