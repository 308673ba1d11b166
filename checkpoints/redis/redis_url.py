"""Redis URLs.

``redis://``, ``rediss://``, ``redis+sentinel://[user:password@]HOST:PORT[,…]/SERVICE[/DB]``, and
``redis+cluster://[user:password@]HOST:PORT[,…][/NAME]``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

from redis.asyncio import Redis

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints.store_url import CLUSTER, SENTINEL, cluster_name, redact_url

_SENTINEL_PORT = 26379
_PORT = 6379
_INVALID_PORT = "its port must be a number from 1 to 65535"


class Pools(NamedTuple):
    """The classes of connection pools without and with a master that can change, and their options."""

    plain: Any
    managed: Any
    options: Mapping[str, Any]


def has_failover(url: str) -> bool:
    """Return whether another server can become the master of this URL."""
    return url.startswith((f"{SENTINEL}://", f"{CLUSTER}://"))


def create_client(url: str, pools: Pools | None = None, **options: Any) -> Any:
    """Create a client.

    Raises:
        CheckpointError: if the URL is invalid.
    """
    client: Any = Redis
    try:
        if not has_failover(url):
            if pools is None:
                return client.from_url(url, **options)
            return client.from_pool(pools.plain.from_url(url, **pools.options, **options))
        if url.startswith(f"{CLUSTER}://"):
            return _create_cluster_client(url, pools, options)
        return _create_sentinel_client(url, pools, options)
    except ValueError as error:
        reason = _INVALID_PORT if str(error).startswith("Port ") else str(error)
        raise CheckpointError(f"The Redis URL {redact_url(url)!r} is invalid: {reason}.") from None


def _create_sentinel_client(url: str, pools: Pools | None, options: Mapping[str, Any]) -> Any:
    from redis.asyncio.sentinel import Sentinel

    from ragflow_lg.checkpoints.redis.managed_connections import ManagedConnection

    places, account, path = _parse(url, _SENTINEL_PORT)
    service, _, database = path.partition("/")
    if not service:
        raise ValueError("it has no service name, as in redis+sentinel://HOST:26379/SERVICE")
    if database and not (database.isascii() and database.isdigit()):
        raise ValueError(f"the database {database!r} after the service is not a number")
    sentinel: Any = Sentinel
    master_finder = sentinel(places, sentinel_kwargs={**account, **options}, **account, **options)
    more = {"connection_pool_class": pools.managed, **pools.options} if pools else {}
    more["connection_class"] = ManagedConnection
    return master_finder.master_for(service, db=int(database or 0), **more)


def _create_cluster_client(url: str, pools: Pools | None, options: Mapping[str, Any]) -> Any:
    from redis.asyncio.sentinel import SentinelConnectionPool

    from ragflow_lg.checkpoints.redis.managed_connections import ManagedConnection
    from ragflow_lg.checkpoints.redis.redis_cluster import SlotMaster

    name = cluster_name(url)
    places, account, _ = _parse(url, _PORT)
    pool = pools.managed if pools else SentinelConnectionPool
    more = {"connection_class": ManagedConnection, **(pools.options if pools else {})}
    return SlotMaster(places, {**account, **options}).client_of(name, pool, more)


def _parse(url: str, default_port: int) -> tuple[list[tuple[str, int]], dict[str, str], str]:
    """Return the addresses, the user and password, and the path of a URL with several addresses."""
    login, _, rest = url.partition("://")[2].rpartition("@")
    places, _, path = rest.partition("/")
    user, _, password = login.partition(":")
    account = {"username": unquote(user), "password": unquote(password)}
    hosts: list[tuple[str, int]] = []
    for place in places.split(","):
        host, _, port = place.partition(":")
        hosts.append((host, _port(port) if port else default_port))
    return hosts, {key: value for key, value in account.items() if value}, path


def _port(text: str) -> int:
    if text.isascii() and text.isdigit() and 0 < int(text[:6]) < 65536:
        return int(text)
    raise ValueError(_INVALID_PORT)
