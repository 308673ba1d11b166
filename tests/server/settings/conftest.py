"""Settings are read in an empty folder."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder with an empty home and no variables."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "OTHER_KEY", "RAGFLOW_LG_SETTINGS"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path
