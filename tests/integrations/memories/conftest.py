from pathlib import Path

import pytest

from ragflow_lg.integrations.memories import background_tasks, memory_shelf


@pytest.fixture
def file_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/items.db"


@pytest.fixture(params=["sqlite", "redis"])
def url(request: pytest.FixtureRequest, file_url: str) -> str:
    return request.getfixturevalue("redis_url") if request.param == "redis" else file_url


@pytest.fixture(autouse=True)
def _close_soon(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction] - pytest uses it
    monkeypatch.setattr(background_tasks, "CLOSE_S", 5.0)
    monkeypatch.setattr(memory_shelf, "CLAIM_S", 0.2)
