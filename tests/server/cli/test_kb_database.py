from __future__ import annotations

from pathlib import Path

import pytest

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.cli.kb_database import get_dataset, knowledge_database
from tests.fakes.embedded import fill, stored_knowledge


def test_a_dataset_is_found_by_name_and_by_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGFLOW_LG_KNOWLEDGE__URL", f"sqlite:///{tmp_path}/k.db")
    fill(stored_knowledge(tmp_path / "k.db"), "d", {"a.md": ["x"]})
    database = knowledge_database(None)
    dataset = get_dataset(database, "d")
    assert get_dataset(database, dataset.id) == dataset
    with pytest.raises(SettingsError, match="kb list"):
        get_dataset(database, "none")
