from pathlib import Path

import pytest


@pytest.fixture(params=["sqlite", "redis"])
def shared_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a store that processes can share."""
    return request.getfixturevalue("redis_url") if request.param == "redis" else f"sqlite:///{tmp_path}/s.db"
