from __future__ import annotations

from pathlib import Path

import pytest

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.cli.kb_database import tell, the_database, the_dataset
from tests.fakes.embedded import fill, stored_knowledge


def test_a_dataset_by_name_and_by_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGFLOW_LG_KNOWLEDGE__URL", f"sqlite:///{tmp_path}/k.db")
    fill(stored_knowledge(tmp_path / "k.db"), "d", {"a.md": ["x"]})
    database = the_database(None)
    found = the_dataset(database, "d")
    assert the_dataset(database, found.id) == found
    with pytest.raises(SettingsError, match="kb list"):
        the_dataset(database, "none")


def test_a_line_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    tell("a\nb\x1b[31m")
    assert capsys.readouterr().out == "a b [31m\n"
