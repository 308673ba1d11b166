"""Access control for the addresses of outgoing connections.

Canvases, models and web pages choose URLs. Internal addresses are therefore refused unless the settings allow them. A
host is resolved once, and the connection is made to the addresses that were checked.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, Literal, TypeAlias, cast

import httpcore
from msgspec import Struct

from ragflow_lg.base.errors import ServiceError, SettingsError

CONNECT_TRY_S = 5.0
"""Time limit in seconds for each of a host's addresses before the next one is tried."""

Address: TypeAlias = tuple[str, int]
"""An IP address as text and a port."""

Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[Address]]]
"""Returns the addresses of a host name and port; raises OSError if the host is unknown."""

_Ip: TypeAlias = IPv4Address | IPv6Address
_Network: TypeAlias = IPv4Network | IPv6Network

# The IANA registries of special addresses, written out: the data in `ipaddress` differs between Python versions.
_INTERNAL = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT
        "127.0.0.0/8",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
        "2001::/23",  # Teredo and other protocol assignments
        "2001:db8::/32",
        "2002::/16",  # 6to4: embeds an IPv4 address
        "3fff::/20",
    )
)
_METADATA = tuple(
    ip_network(text)
    for text in (
        "169.254.0.0/16",
        "100.100.100.200/32",
        "168.63.129.16/32",
        "192.0.0.192/32",
        "fe80::/10",
        "fd00:ec2::/32",
        "fd20:ce::/32",
    )
)
_GLOBAL_IPV6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")

_ENTRY = re.compile(r"(?:\[(?P<bracketed>[^\]]+)\]|(?P<plain>[^\[\]:]+))(?P<length>/\d{1,3})?(?::(?P<port>\d{1,5}))?")
_NAME = re.compile(r"(?:\*\.)?[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)*")


class _Rule(Struct, frozen=True):
    """An allow-list entry: a network or a name (``.suffix`` for all names below it), on one or all ports."""

    network: _Network | None
    name: str
    port: int | None

    def matches_name(self, host: str, port: int) -> bool:
        if self.network is not None or self.port not in (None, port):
            return False
        return host.endswith(self.name) if self.name.startswith(".") else host == self.name

    def contains(self, ip: _Ip, port: int) -> bool:
        return self.network is not None and self.port in (None, port) and ip in self.network


async def resolve_host(host: str, port: int) -> Sequence[Address]:
    """Resolve a host through the operating system."""
    results = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys((str(sockaddr[0]), int(sockaddr[1])) for *_, sockaddr in results))


class AddressGuard:
    """Resolves hosts and refuses internal addresses.

    ``allow`` lists exceptions: ``host``, ``*.suffix``, an address or a CIDR network, each with an optional ``:port``
    (which requires brackets around an IPv6 address). A name allows private and loopback addresses, but never link-local
    addresses and cloud metadata services. Those must be allowed by address, because the name's owner chooses its
    addresses.

    Raises:
        SettingsError: for an entry in any other format.
    """

    def __init__(self, allow: Iterable[str] = (), *, resolve: Resolver = resolve_host) -> None:
        self._rules = tuple(_rule(entry) for entry in allow)
        self._resolve = resolve

    async def resolve(self, host: str, port: int) -> Sequence[Address]:
        """Return a host's addresses, all of which have been checked.

        Raises:
            ServiceError: if the host does not resolve, or if any of its addresses is refused.
        """
        name = host.lower().rstrip(".")
        try:
            addresses = await self._resolve(host, port)
        except OSError as error:
            raise ServiceError(f"The host {host!r} cannot be resolved: {_reason(error)}.", is_retryable=True) from error
        except UnicodeError as error:
            raise ServiceError(f"The host {host!r} cannot be resolved: it is not a valid name.") from error
        if not addresses:
            raise ServiceError(f"The host {host!r} has no address.", is_retryable=True)
        for address, _ in addresses:
            self._check(host, name, port, address)
        return addresses

    def _check(self, host: str, name: str, port: int, address: str) -> None:
        ip = _effective_ip(ip_address(address.partition("%")[0]))
        kind = _kind(ip)
        if kind == "global" or any(rule.contains(ip, port) for rule in self._rules):
            return
        if kind == "internal" and any(rule.matches_name(name, port) for rule in self._rules):
            return
        what = "not on the public internet" if kind == "internal" else "link-local or a cloud metadata service"
        raise ServiceError(
            f"The request to {host!r} is refused: its address is {what}. "
            "To reach it, allow its network in the [http] allow setting."
        )


def _rule(entry: str) -> _Rule:
    text = entry.strip().lower()
    network = _network(text)
    if network is not None:
        return _Rule(network, "", None)
    match = _ENTRY.fullmatch(text)
    if match is not None:
        port = int(match["port"]) if match["port"] else None
        network = _network((match["bracketed"] or match["plain"]) + (match["length"] or ""))
        is_name = match["plain"] and not match["length"] and _NAME.fullmatch(match["plain"]) is not None
        if (network is not None or is_name) and port != 0 and (port or 0) < 65536:
            return _Rule(network, "" if network else match["plain"].removeprefix("*"), port)
    raise SettingsError(
        f"The entry {entry!r} in the [http] allow setting is not valid. "
        "Write a host name, *.suffix, an address or a CIDR network, optionally followed by :port."
    )


def _network(text: str) -> _Network | None:
    try:
        return ip_network(text)
    except ValueError:
        return None


def _effective_ip(ip: _Ip) -> _Ip:
    """Return the embedded IPv4 address of an IPv4-mapped or NAT64 address, and any other address unchanged."""
    if isinstance(ip, IPv6Address):
        if ip.ipv4_mapped is not None:
            return ip.ipv4_mapped
        if ip in _NAT64:
            return IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip


def _kind(ip: _Ip) -> Literal["global", "internal", "metadata"]:
    if any(ip in network for network in _METADATA):
        return "metadata"
    if any(ip in network for network in _INTERNAL) or (isinstance(ip, IPv6Address) and ip not in _GLOBAL_IPV6):
        return "internal"
    return "global"


def _reason(error: OSError) -> str:
    return (error.strerror or type(error).__name__).rstrip(".")


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
