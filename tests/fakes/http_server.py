"""A small HTTP/1.1 server on 127.0.0.1 with fixed routes that records its requests."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import h11


@dataclass(frozen=True)
class Route:
    """A response. ``path`` excludes the query; an empty ``method`` matches every method.

    ``pieces`` are sent one by one, ``piece_delay_ms`` apart, instead of ``body``. ``raw`` is sent instead of a
    well-formed response. ``breaks`` closes the connection before the body is complete.
    """

    path: str
    method: str = ""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: str | bytes = ""
    delay_ms: int = 0
    pieces: Sequence[bytes] = ()
    piece_delay_ms: int = 0
    raw: bytes = b""
    breaks: bool = False


@dataclass(frozen=True)
class Received:
    """A request. ``path`` includes the query; ``connection`` is the number of the connection, from 1."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes
    connection: int

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


class HttpServer:
    """The server. With ``tunnel_port`` it is also a proxy: every CONNECT leads to that port of 127.0.0.1."""

    def __init__(self, routes: Sequence[Route] = (), *, tunnel_port: int = 0) -> None:
        self.routes = list(routes)
        self.received: list[Received] = []
        self.port = 0
        self._tunnel_port = tunnel_port
        self._connections = 0
        self._tasks: set[asyncio.Task[Any]] = set()

    @asynccontextmanager
    async def running(self, *, tls: ssl.SSLContext | None = None) -> AsyncGenerator[HttpServer]:
        """Serve on a free port."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await asyncio.sleep(0)  # aborted connections are closed in the next loop iteration

    async def resolve(self, host: str, port: int) -> list[tuple[str, int]]:
        """Resolve every host and port to this server; a resolver for clients."""
        return [("127.0.0.1", self.port)]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._connections += 1
        try:
            await self._converse(reader, writer, self._connections)
        except (ConnectionError, h11.RemoteProtocolError):
            pass
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        connection = h11.Connection(h11.SERVER)
        while True:
            request, body = None, b""
            while True:
                event = connection.next_event()
                if event is h11.NEED_DATA:
                    connection.receive_data(await reader.read(65536))
                elif isinstance(event, h11.Request):
                    request = event
                elif isinstance(event, h11.Data):
                    body += event.data
                else:
                    break
            if request is None:
                return
            headers = [(name.decode(), value.decode("utf-8", "replace")) for name, value in request.headers.raw_items()]
            received = Received(request.method.decode(), request.target.decode(), headers, body, number)
            self.received.append(received)
            if received.method == "CONNECT":
                await self._tunnel(reader, writer)
                return
            if not await self._answer(connection, writer, received):
                return
            if connection.our_state is h11.MUST_CLOSE:
                return
            connection.start_next_cycle()

    async def _answer(self, connection: h11.Connection, writer: asyncio.StreamWriter, request: Received) -> bool:
        """Send the response; return whether the connection stays open."""
        route = self._route(request)
        await asyncio.sleep(route.delay_ms / 1000)
        if route.raw:
            writer.write(route.raw)
            await writer.drain()
            return False
        body = route.body.encode() if isinstance(route.body, str) else route.body
        headers = {"Content-Type": "text/plain", **route.headers}
        if not route.pieces:
            headers.setdefault("Content-Length", str(len(body)))
        writer.write(connection.send(h11.Response(status_code=route.status, headers=list(headers.items()))) or b"")
        for index, piece in enumerate(route.pieces or [body]):
            if index:
                await asyncio.sleep(route.piece_delay_ms / 1000)
            if piece and request.method != "HEAD":
                writer.write(connection.send(h11.Data(piece)) or b"")
                await writer.drain()
        if route.breaks:
            return False
        writer.write(connection.send(h11.EndOfMessage()) or b"")
        await writer.drain()
        return True

    def _route(self, request: Received) -> Route:
        path = request.path.partition("?")[0]
        for route in self.routes:
            if route.path == path and route.method.upper() in ("", request.method):
                return route
        return Route(path, status=404, body="no route")

    async def _tunnel(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._tunnel_port:
            writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            return
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self._tunnel_port)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_pump(reader, inner_writer))
                group.create_task(_pump(inner_reader, writer))
        finally:
            inner_writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()
