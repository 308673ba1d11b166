"""Networks for httpcore that connect to checked addresses only."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from typing import Any, cast

import httpcore

from ragflow_lg.adapters.http.address_guard import AddressGuard
from ragflow_lg.base.errors import ServiceError

__all__ = ["PinnedNetwork", "TunnelNetwork"]

CONNECT_TRY_S = 5.0
"""How long one of several addresses of a host may take before the next is tried, in seconds."""


class PinnedNetwork(httpcore.AsyncNetworkBackend):
    """Asks the guard for a host's addresses and connects to one of those; nobody looks the name up again."""

    def __init__(self, guard: AddressGuard) -> None:
        self._guard = guard
        # A cast, since httpcore puts a stand-in there where anyio is missing.
        self._network = cast("httpcore.AsyncNetworkBackend", httpcore.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's signature
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the first of the host's addresses that answers.

        Raises:
            ServiceError: if the guard refuses the host.
        """
        found = await self._guard.addresses(host, port)
        for address, at_port in found[:-1]:
            try:
                return await self._network.connect_tcp(address, at_port, CONNECT_TRY_S, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return await self._network.connect_tcp(*found[-1], timeout, local_address, socket_options)

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's signature
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Refuse: a socket file is inside the machine."""
        raise ServiceError("A request to a socket file is refused.")

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await self._network.sleep(seconds)


class TunnelNetwork(PinnedNetwork):
    """Connects to a proxy that is asked for an address; TLS inside the tunnel is checked against the name."""

    def __init__(self, guard: AddressGuard, *, address: str, name: str) -> None:
        super().__init__(guard)
        self._address = address
        self._name = name

    async def connect_tcp(self, *args: Any, **options: Any) -> httpcore.AsyncNetworkStream:
        """Connect to the proxy."""
        return _TunnelStream(await super().connect_tcp(*args, **options), self._address, self._name)


class _TunnelStream(httpcore.AsyncNetworkStream):
    """A connection to a proxy, with or without TLS of its own."""

    def __init__(self, stream: httpcore.AsyncNetworkStream, address: str, name: str) -> None:
        self._stream = stream
        self._address = address
        self._name = name

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        return await self._stream.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore.AsyncNetworkStream:
        name = self._name if server_hostname == self._address else server_hostname
        return _TunnelStream(await self._stream.start_tls(ssl_context, name, timeout), self._address, self._name)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
