"""Databases for tests: a test with the parameter ``database_url`` runs on SQLite, PostgreSQL and MariaDB."""

import os
import secrets
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import make_url, text
from sqlalchemy.ext.asyncio import create_async_engine

from tests.harness.database_servers import NotInstalledError, server

DRIVERS = {"postgresql": "psycopg", "mariadb": "asyncmy"}


class DatabaseServers:
    """The database servers of a test session, each started at its first use."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._urls: dict[str, str] = {}

    def url(self, kind: str) -> str:
        if kind not in self._urls:
            try:
                self._urls[kind] = self._stack.enter_context(server(kind))
            except NotInstalledError as error:
                if os.environ.get("REQUIRE_DATABASES"):
                    raise
                pytest.skip(f"{kind}: {error}")
        return self._urls[kind]


@pytest.fixture(scope="session")
def database_servers() -> Generator[DatabaseServers]:
    with ExitStack() as stack:
        yield DatabaseServers(stack)


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
async def database_url(
    request: pytest.FixtureRequest, tmp_path: Path, database_servers: DatabaseServers
) -> AsyncGenerator[str]:
    """Yield the URL of an empty database of each kind."""
    kind: str = request.param
    if kind == "sqlite":
        yield f"sqlite:///{tmp_path}/server.db"
        return
    address = make_url(database_servers.url(kind))
    name = f"t{secrets.token_hex(8)}"
    engine = create_async_engine(address.set(drivername=f"{kind}+{DRIVERS[kind]}"), isolation_level="AUTOCOMMIT")
    async with engine.connect() as connection:
        await connection.execute(text(f"CREATE DATABASE {name}"))
    await engine.dispose()
    yield address.set(database=name).render_as_string(hide_password=False)
