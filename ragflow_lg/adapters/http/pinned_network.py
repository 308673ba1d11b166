"""Network backends for httpcore that connect only to checked addresses."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from typing import Any, cast

import httpcore

from ragflow_lg.adapters.http.address_guard import AddressGuard
from ragflow_lg.base.errors import ServiceError

CONNECT_TRY_S = 5.0
"""Time limit in seconds for each of a host's addresses before the next one is tried."""


class PinnedNetwork(httpcore.AsyncNetworkBackend):
    """Connects to the addresses that the guard resolved and checked; the name is never resolved again."""

    def __init__(self, guard: AddressGuard) -> None:
        self._guard = guard
        # A cast, because httpcore substitutes another class if anyio is missing.
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
        addresses = await self._guard.resolve(host, port)
        for address, address_port in addresses[:-1]:
            try:
                return await self._network.connect_tcp(
                    address, address_port, CONNECT_TRY_S, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return await self._network.connect_tcp(*addresses[-1], timeout, local_address, socket_options)

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's signature
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Raise ServiceError: socket files give access to services on this machine."""
        raise ServiceError("Requests to socket files are refused.")

    async def sleep(self, seconds: float) -> None:
        """Sleep."""
        await self._network.sleep(seconds)


class TunnelNetwork(PinnedNetwork):
    """Connects to a proxy with the target's address; TLS inside the tunnel is verified against the target's name."""

    def __init__(self, guard: AddressGuard, *, address: str, name: str) -> None:
        super().__init__(guard)
        self._address = address
        self._name = name

    async def connect_tcp(self, *args: Any, **options: Any) -> httpcore.AsyncNetworkStream:
        """Connect to the proxy."""
        return _TunnelStream(await super().connect_tcp(*args, **options), self._address, self._name)


class _TunnelStream(httpcore.AsyncNetworkStream):
    """A connection to a proxy, optionally over TLS."""

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
