"""Stores that can be opened with several keys."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ragflow_lg.services.encryption import EncryptionKey
from tests.stores import OpenStore, fresh_prefix, store_opener

OLD, NEW = EncryptionKey("old", b"o" * 32), EncryptionKey("new", b"n" * 32)

OpenWith = Callable[..., OpenStore]
"""Returns a function that opens the same store with the given keys."""


@pytest.fixture(params=["sqlite", "redis"])
def open_with(request: pytest.FixtureRequest, tmp_path: Path) -> OpenWith:
    """Return a function that opens one store, on disk or in Redis, with keys."""
    url = request.getfixturevalue("redis_url") if request.param == "redis" else f"sqlite:///{tmp_path}/s.db"
    prefix = fresh_prefix()
    return lambda *keys: store_opener(url, prefix, keys)
