from pathlib import Path

import pytest

from ragflow_lg.adapters.memories import background_tasks, memory_shelf


@pytest.fixture(params=["memory", "sqlite", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "redis":
        return request.getfixturevalue("redis_url")
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/items.db"


@pytest.fixture(autouse=True)
def _close_soon(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction] - pytest uses it
    monkeypatch.setattr(background_tasks, "CLOSE_S", 5.0)
    monkeypatch.setattr(memory_shelf, "CLAIM_S", 0.2)
