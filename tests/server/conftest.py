"""Databases for tests: a test with the parameter ``database_url`` runs on SQLite, PostgreSQL and MariaDB."""

import os
import secrets
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from sqlalchemy import make_url, text
from sqlalchemy.ext.asyncio import create_async_engine

from tests.harness.database_servers import NotInstalledError
from tests.harness.shared_databases import database_server_url

DRIVERS = {"postgresql": "psycopg", "mariadb": "asyncmy"}


def require_database_server(kind: str) -> str:
    """Return the URL of the server of a kind. Skip the test if it is not installed and need not be."""
    try:
        return database_server_url(kind)
    except NotInstalledError as error:
        if os.environ.get("REQUIRE_DATABASES"):
            raise
        pytest.skip(f"{kind}: {error}")


@pytest.fixture(params=["sqlite", *(pytest.param(kind, marks=pytest.mark.slow) for kind in DRIVERS)])
async def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[str]:
    """Yield the URL of an empty database of each kind."""
    kind: str = request.param
    if kind == "sqlite":
        yield f"sqlite:///{tmp_path}/server.db"
        return
    yield await create_database(kind)


async def create_database(kind: str) -> str:
    """Return the URL of an empty database. Skip the test if there is no server of the kind."""
    address = make_url(require_database_server(kind))
    name = f"t{secrets.token_hex(8)}"
    engine = create_async_engine(address.set(drivername=f"{kind}+{DRIVERS[kind]}"), isolation_level="AUTOCOMMIT")
    async with engine.connect() as connection:
        await connection.execute(text(f"CREATE DATABASE {name}"))
    await engine.dispose()
    return address.set(database=name).render_as_string(hide_password=False)
