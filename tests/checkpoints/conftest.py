"""The suite of session stores: ``pytest tests/checkpoints -k valkey`` runs it on one backend."""

from pathlib import Path

import pytest

from tests.harness.database_servers import NotInstalledError
from tests.harness.shared_databases import database_server_url
from tests.stores import SHARED, STORES, OpenStore, fresh_prefix, store_opener, store_url

MORE = ("valkey", pytest.param("postgresql", marks=pytest.mark.slow))
"""Backends beside those on which everything is tested."""


@pytest.fixture(scope="session")
def postgresql_url() -> str:
    pytest.importorskip("langgraph.checkpoint.postgres")
    try:
        return database_server_url("postgresql")
    except NotInstalledError as error:
        pytest.skip(str(error))


@pytest.fixture(params=(*SHARED, *MORE))
def shared_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a store that processes can share."""
    return store_url(request, tmp_path)


@pytest.fixture(params=(*STORES, *MORE))
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    """Open a session store of each kind, the same one each time."""
    return store_opener(store_url(request, tmp_path), fresh_prefix())
