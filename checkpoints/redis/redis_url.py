"""Redis URLs: ``redis://``, ``rediss://``, and ``redis+sentinel://[user:password@]HOST:PORT[,…]/SERVICE[/DB]``."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from ragflow_lg.base.errors import CheckpointError

__all__ = ["SENTINEL", "client_of", "shown_url"]

SENTINEL = "redis+sentinel"
_SENTINEL_PORT = 26379
_WRONG_PORT = "its port is wrong; it should be a number from 1 to 65535"


def client_of(url: str, client: Any, sentinel: Any, **options: Any) -> Any:
    """Make a client of the class ``client``; ``sentinel`` is the class that finds the master, of the same kind.

    Raises:
        CheckpointError: if the URL cannot be read.
    """
    try:
        if not url.startswith(f"{SENTINEL}://"):
            return client.from_url(url, **options)
        hosts, service, database, account = _sentinel(url)
        found = sentinel(hosts, sentinel_kwargs={**account, **options}, **account, **options)
        return found.master_for(service, redis_class=client, db=database)
    except ValueError as error:
        reason = _WRONG_PORT if str(error).startswith("Port ") else str(error)
        raise CheckpointError(f"The Redis URL {shown_url(url)!r} cannot be read: {reason}.") from None


def shown_url(url: str) -> str:
    """Give the URL without its password."""
    scheme, separator, rest = url.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"


def _sentinel(url: str) -> tuple[list[tuple[str, int]], str, int, dict[str, str]]:
    login, _, rest = url.partition("://")[2].rpartition("@")
    places, _, path = rest.partition("/")
    service, _, database = path.partition("/")
    if not service:
        raise ValueError("it names no service, as in redis+sentinel://HOST:26379/SERVICE")
    user, _, password = login.partition(":")
    account = {"username": unquote(user), "password": unquote(password)}
    hosts: list[tuple[str, int]] = []
    for place in places.split(","):
        host, _, port = place.partition(":")
        hosts.append((host, _port(port) if port else _SENTINEL_PORT))
    if database and not (database.isascii() and database.isdigit()):
        raise ValueError(f"the database {database!r} behind the service is no number")
    return hosts, service, int(database or 0), {key: value for key, value in account.items() if value}


def _port(text: str) -> int:
    if text.isascii() and text.isdigit() and 0 < int(text[:6]) < 65536:
        return int(text)
    raise ValueError(_WRONG_PORT)
