"""The suite of session stores: ``pytest tests/checkpoints -k valkey`` runs it on one backend."""

from pathlib import Path

import pytest

from tests.harness.database_servers import NotInstalledError
from tests.harness.shared_databases import database_server_url
from tests.stores import OpenStore, fresh_prefix, store_opener

SHARED = ("sqlite", "redis", "valkey", pytest.param("postgresql", marks=pytest.mark.slow))
"""The backends that processes can share."""


def _url(request: pytest.FixtureRequest, folder: Path) -> str:
    known = {"memory": "memory://", "sqlite": f"sqlite:///{folder}/s.db"}
    return known.get(request.param) or request.getfixturevalue(f"{request.param}_url")


@pytest.fixture(scope="session")
def postgresql_url() -> str:
    pytest.importorskip("langgraph.checkpoint.postgres")
    try:
        return database_server_url("postgresql")
    except NotInstalledError as error:
        pytest.skip(str(error))


@pytest.fixture(params=SHARED)
def shared_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a store that processes can share."""
    return _url(request, tmp_path)


@pytest.fixture(params=("memory", *SHARED))
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    """Open a session store of each kind, the same one each time."""
    return store_opener(_url(request, tmp_path), fresh_prefix())


@pytest.fixture
def reopen_shared(shared_url: str) -> OpenStore:
    """Open a session store that processes can share."""
    return store_opener(shared_url, fresh_prefix())
