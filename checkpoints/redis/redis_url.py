"""Redis URLs: ``redis://``, ``rediss://``, and ``redis+sentinel://[user:password@]HOST:PORT[,…]/SERVICE[/DB]``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

from ragflow_lg.base.errors import CheckpointError
from ragflow_lg.checkpoints.store_url import SENTINEL, redact_url

_SENTINEL_PORT = 26379
_INVALID_PORT = "its port must be a number from 1 to 65535"


class Pools(NamedTuple):
    """The classes of connection pools without and with a Sentinel, and their options."""

    plain: Any
    sentinel: Any
    options: Mapping[str, Any]


def create_client(url: str, client: Any, sentinel: Any, pools: Pools | None = None, **options: Any) -> Any:
    """Create a client of the class ``client``.

    For Sentinel URLs, ``sentinel`` is the matching Sentinel class, which finds the master.

    Raises:
        CheckpointError: if the URL is invalid.
    """
    try:
        if not url.startswith(f"{SENTINEL}://"):
            if pools is None:
                return client.from_url(url, **options)
            return client.from_pool(pools.plain.from_url(url, **pools.options, **options))
        hosts, service, database, account = _parse_sentinel(url)
        master_finder = sentinel(hosts, sentinel_kwargs={**account, **options}, **account, **options)
        more = {"connection_pool_class": pools.sentinel, **pools.options} if pools else {}
        return master_finder.master_for(service, redis_class=client, db=database, **more)
    except ValueError as error:
        reason = _INVALID_PORT if str(error).startswith("Port ") else str(error)
        raise CheckpointError(f"The Redis URL {redact_url(url)!r} is invalid: {reason}.") from None


def _parse_sentinel(url: str) -> tuple[list[tuple[str, int]], str, int, dict[str, str]]:
    login, _, rest = url.partition("://")[2].rpartition("@")
    places, _, path = rest.partition("/")
    service, _, database = path.partition("/")
    if not service:
        raise ValueError("it has no service name, as in redis+sentinel://HOST:26379/SERVICE")
    user, _, password = login.partition(":")
    account = {"username": unquote(user), "password": unquote(password)}
    hosts: list[tuple[str, int]] = []
    for place in places.split(","):
        host, _, port = place.partition(":")
        hosts.append((host, _port(port) if port else _SENTINEL_PORT))
    if database and not (database.isascii() and database.isdigit()):
        raise ValueError(f"the database {database!r} after the service is not a number")
    return hosts, service, int(database or 0), {key: value for key, value in account.items() if value}


def _port(text: str) -> int:
    if text.isascii() and text.isdigit() and 0 < int(text[:6]) < 65536:
        return int(text)
    raise ValueError(_INVALID_PORT)
