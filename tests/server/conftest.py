"""Databases and servers for tests.

A test with the parameter ``database_url`` runs on SQLite, PostgreSQL and MariaDB. One with ``server`` has a tenant of
its own on a server that all tests of a process share; one that needs other settings starts its own.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from sqlalchemy import make_url, text
from sqlalchemy.ext.asyncio import create_async_engine

from tests.harness.database_servers import NotInstalledError
from tests.harness.shared_databases import database_server_url

if TYPE_CHECKING:
    from ragflow_lg.server.database.database import Database
    from tests.server.http.app_server import AppServer

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


@pytest.fixture
async def database(database_url: str, tmp_path: Path) -> AsyncGenerator[Database]:
    """Open an empty database of each kind."""
    from ragflow_lg.server.database.database import open_database
    from tests.server.http.app_server import copy_database

    if database_url.startswith("sqlite"):
        await copy_database(tmp_path)
    async with open_database(database_url) as opened:
        yield opened


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[AppServer]:
    """Yield the server that tests share."""
    from tests.server.http.app_server import start_app  # most folders need no server

    async with start_app(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest_asyncio.fixture(loop_scope="session")
async def server(shared_server: AppServer) -> AsyncGenerator[AppServer]:
    """Yield the shared server with a new tenant, client and model."""
    from tests.server.http.app_server import open_tenant

    async with open_tenant(shared_server) as server:
        yield server


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared_ui(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[AppServer]:
    """Yield a server with a front end."""
    from tests.server.http.ragflow_ui.ui_server import start_ui

    async with start_ui(tmp_path_factory.mktemp("ui")) as server:
        yield server


@pytest_asyncio.fixture(loop_scope="session")
async def ui(shared_ui: AppServer) -> AsyncGenerator[AppServer]:
    """Yield the server with a front end, with a new tenant. Tests that sign in start their own: attempts are few."""
    from tests.server.http.app_server import open_tenant

    async with open_tenant(shared_ui) as server:
        yield server


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run tests of the shared servers in their event loop."""
    for item in items:
        if isinstance(item, pytest.Function) and {"shared_server", "shared_ui"} & {*item.fixturenames}:
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
