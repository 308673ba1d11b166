"""Every test that opens its database by ``rows.opened`` runs on SQLite, PostgreSQL and MariaDB."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncGenerator, Generator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import make_url, text
from sqlalchemy.ext.asyncio import create_async_engine

from tests.harness.database_servers import NotInstalledError, server
from tests.server.database import rows

KINDS = ("sqlite", "postgresql", "mariadb")
DRIVERS = {"postgresql": "psycopg", "mariadb": "asyncmy"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Repeat what opens a database for every kind of it."""
    if "opened" in metafunc.function.__code__.co_names:
        metafunc.parametrize("database_url", KINDS, indirect=True)


class Servers:
    """The servers of a session, each started by the first who asks."""

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
def servers() -> Generator[Servers]:
    with ExitStack() as stack:
        yield Servers(stack)


@pytest.fixture(autouse=True)
async def database_url(request: pytest.FixtureRequest, servers: Servers) -> AsyncGenerator[str]:
    """Give an empty database to `rows.opened` for the folder of the test."""
    kind: str = getattr(request, "param", "")
    if not kind:
        yield ""
        return
    tmp_path: Path = request.getfixturevalue("tmp_path")
    url = f"sqlite:///{tmp_path}/server.db"
    if kind != "sqlite":
        address = make_url(servers.url(kind))
        name = f"t{secrets.token_hex(8)}"
        engine = create_async_engine(address.set(drivername=f"{kind}+{DRIVERS[kind]}"), isolation_level="AUTOCOMMIT")
        async with engine.connect() as connection:
            await connection.execute(text(f"CREATE DATABASE {name}"))
        await engine.dispose()
        url = address.set(database=name).render_as_string(hide_password=False)
    rows.URLS[tmp_path] = url
    yield url
    del rows.URLS[tmp_path]
