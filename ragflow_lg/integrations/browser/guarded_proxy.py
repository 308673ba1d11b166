"""The only way from a browser to the network: a SOCKS proxy on this machine that checks every address.

A browser resolves no names itself. Redirects, parts of pages, workers, WebSockets and preconnections all arrive here as
connections to a host and a port; the host is resolved once, and the connection goes to the addresses that were checked.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address

from ragflow_lg.adapters.http.address_guard import Address, AddressGuard
from ragflow_lg.base.errors import ServiceError

HANDSHAKE_S = 10.0
CONNECT_S = 10.0
MAX_CONNECTIONS = 256
MAKERS_HOSTS = frozenset(
    [
        "content-autofill.googleapis.com",
        "optimizationguide-pa.googleapis.com",
        "safebrowsing.googleapis.com",
        "update.googleapis.com",
    ]
)
"""Hosts that Chromium asks by itself in the name of a page, such as what the fields of a form mean."""

MAX_REFUSALS = 20
CHUNK_BYTES = 65_536

_VERSION = 5
_NO_AUTHENTICATION = 0
_NONE_ACCEPTABLE = 0xFF
_CONNECT = 1
_SUCCEEDED, _NOT_ALLOWED, _UNREACHABLE, _UNSUPPORTED = 0, 2, 4, 7


class GuardedProxy:
    """A SOCKS 5 proxy for one browser (RFC 1928; only connections, no UDP)."""

    def __init__(self, guard: AddressGuard, max_bytes: int) -> None:
        self._guard = guard
        self._max_bytes = max_bytes
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._refusals: dict[str, str] = {}
        self._received = 0

    @property
    def is_exhausted(self) -> bool:
        """Whether the browser has transferred as much as it may."""
        return self._received > self._max_bytes

    async def start(self) -> int:
        """Start to listen. Return the port."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self._server.sockets[0].getsockname()[1]

    async def aclose(self) -> None:
        """Close all connections."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def take_refusals(self) -> list[str]:
        """Return why hosts were refused or not reached since the last call, at most `MAX_REFUSALS` reasons."""
        reasons = list(self._refusals.values())
        self._refusals.clear()
        return reasons

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if len(self._tasks) <= MAX_CONNECTIONS and not self.is_exhausted:
                await self._serve(reader, writer)
        except (OSError, EOFError, UnicodeError):
            pass  # a browser ends connections in every way
        except asyncio.CancelledError:
            writer.transport.abort()  # not raised: asyncio would log the end of each connection as an error
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                request = await _read_request(reader, writer)
        except TimeoutError:
            return
        if request is None:
            return
        host, port = request
        if host.lower().rstrip(".") in MAKERS_HOSTS:
            writer.write(_reply(_NOT_ALLOWED))
            return
        try:
            async with asyncio.timeout(CONNECT_S):
                addresses = await self._guard.resolve(host, port)
                remote_reader, remote_writer = await _connect(addresses)
        except ServiceError as error:
            self._refuse(f"{host}:{port}", str(error))
            writer.write(_reply(_NOT_ALLOWED))
            return
        except (OSError, TimeoutError):
            self._refuse(f"{host}:{port}", f"{host!r} cannot be reached on port {port}.")
            writer.write(_reply(_UNREACHABLE))
            return
        writer.write(_reply(_SUCCEEDED))
        try:
            await self._pump_both(reader, writer, remote_reader, remote_writer)
        finally:
            remote_writer.close()

    async def _pump_both(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        remote_reader: asyncio.StreamReader,
        remote_writer: asyncio.StreamWriter,
    ) -> None:
        """Copy in both directions until both ends have finished, or one of them has failed."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pump(reader, remote_writer))
            group.create_task(self._pump(remote_reader, writer))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while chunk := await reader.read(CHUNK_BYTES):
                self._received += len(chunk)
                if self.is_exhausted:
                    break
                writer.write(chunk)
                await writer.drain()
        with suppress(OSError):
            if self.is_exhausted:
                writer.transport.abort()
            elif writer.can_write_eof():
                writer.write_eof()

    def _refuse(self, target: str, reason: str) -> None:
        if len(self._refusals) < MAX_REFUSALS:
            self._refusals[target] = reason


async def _read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Address | None:
    """Return the host and the port that a client wants, or None after the refusal of a request of another kind."""
    version, count = await reader.readexactly(2)
    methods = await reader.readexactly(count)
    if version != _VERSION or _NO_AUTHENTICATION not in methods:
        writer.write(bytes([_VERSION, _NONE_ACCEPTABLE]))
        return None
    writer.write(bytes([_VERSION, _NO_AUTHENTICATION]))
    _, command, _, kind = await reader.readexactly(4)
    match kind:
        case 1:
            host = str(IPv4Address(await reader.readexactly(4)))
        case 3:
            (length,) = await reader.readexactly(1)
            host = (await reader.readexactly(length)).decode("ascii")
        case 4:
            host = str(IPv6Address(await reader.readexactly(16)))
        case _:
            return None
    port = int.from_bytes(await reader.readexactly(2))
    if command != _CONNECT or not port:
        writer.write(_reply(_UNSUPPORTED))
        return None
    return host, port


def _reply(code: int) -> bytes:
    return bytes([_VERSION, code, 0, 1, 0, 0, 0, 0, 0, 0])


async def _connect(addresses: Sequence[Address]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the first of the checked addresses that answers."""
    last: OSError = OSError("no address")
    for address, port in addresses:
        try:
            # Addresses only: a name would be resolved again, perhaps differently.
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            return await asyncio.open_connection(address, port, family=family, flags=socket.AI_NUMERICHOST)
        except OSError as error:
            last = error
    raise last
