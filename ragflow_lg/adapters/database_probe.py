"""Testing the connection to a database that somebody names, such as in the form of RAGFlow's ExeSQL."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec import Struct

from ragflow_lg.adapters.http.address_guard import AddressGuard
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.extras import require

CONNECT_S = 10.0
"""How long a connection may take."""
MAX_ERROR_CHARS = 500
_MYSQL = ("mysql", "mariadb", "oceanbase")
_POSTGRESQL = ("postgres", "postgresql")


class DatabaseAddress(Struct, frozen=True):
    """A database and an account for it. ``kind`` is the name that RAGFlow's editor uses."""

    kind: str
    host: str
    port: int
    database: str
    user: str
    password: str


async def probe_database(address: DatabaseAddress, guard: AddressGuard) -> None:
    """Connect to a database and run ``SELECT 1``. Only an address that the guard has checked is contacted.

    Raises:
        ServiceError: If the kind is unknown, the address is refused, or the database cannot be reached.
    """
    kind = address.kind.lower()
    if kind in _MYSQL:
        require("mysql", f"A connection to {address.kind}", ServiceError)
        select = _select_from_mysql
    elif kind in _POSTGRESQL:
        require("postgresql", f"A connection to {address.kind}", ServiceError)
        select = _select_from_postgresql
    else:
        known = ", ".join((*_MYSQL, _POSTGRESQL[0]))
        raise ServiceError(f"Unsupported database type {address.kind[:40]!r}. ragflow-lg can connect to {known}.")
    ip, port = (await guard.resolve(address.host, address.port))[0]
    try:
        async with asyncio.timeout(CONNECT_S):
            await select(address, ip, port)
    except TimeoutError:
        raise ServiceError(f"The database at {address.host!r} did not respond within {CONNECT_S:g} s.") from None
    except Exception as error:  # for odd answers asyncmy raises anything, even UnboundLocalError
        reason = " ".join(str(error).split())[:MAX_ERROR_CHARS] or type(error).__name__
        raise ServiceError(f"The database at {address.host!r} refused the connection: {reason}") from error


async def _select_from_mysql(address: DatabaseAddress, ip: str, port: int) -> None:
    import asyncmy

    connection: Any = await asyncmy.connect(  # pyright: ignore[reportUnknownMemberType]
        host=ip, port=port, user=address.user, password=address.password, db=address.database
    )
    try:
        async with connection.cursor() as cursor:
            await cursor.execute("SELECT 1")
    finally:
        connection.close()


async def _select_from_postgresql(address: DatabaseAddress, ip: str, port: int) -> None:
    import psycopg

    connection = await psycopg.AsyncConnection.connect(
        host=address.host,
        hostaddr=ip,
        port=port,
        dbname=address.database,
        user=address.user,
        password=address.password,
    )
    async with connection:
        await connection.execute("SELECT 1")
