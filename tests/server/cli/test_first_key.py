import stat
import sys
from pathlib import Path

import pytest

from ragflow_lg.server.cli.serve import hand_over
from tests.harness.first_key import read_first_key


def test_a_terminal_shows_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert hand_over("ragflow-1", tmp_path / "key") == "API key (shown only once): ragflow-1"
    assert not (tmp_path / "key").exists()


def test_elsewhere_a_private_file_contains_it(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("the key of an earlier database")
    file.chmod(0o644)
    line = hand_over("ragflow-1", file)
    assert "ragflow-1" not in line
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert read_first_key(line) == "ragflow-1"
    assert "ragflow-lg keys create" in hand_over("ragflow-1", tmp_path / "missing" / "key")
