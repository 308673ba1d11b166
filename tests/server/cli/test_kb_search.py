import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.cli.kb import get_dataset, knowledge_database
from tests.fakes.embedded import fill, stored_knowledge
from tests.server.cli.command import ROOT, invoke


@pytest.fixture
def settings(tmp_path: Path) -> Mapping[str, str]:
    environment = {"RAGFLOW_LG_KNOWLEDGE__URL": f"sqlite:///{tmp_path}/k.db"}
    invoke("kb", "add", ROOT / "examples" / "handbook", environment=environment)
    return environment


def test_results_have_document_and_lines(settings: Mapping[str, str]) -> None:
    output = invoke("kb", "search", "handbook", "How many days of vacation?", "-n", "1", environment=settings).stdout
    first, text = output.splitlines()
    assert first.startswith("1. 0.")
    assert first.endswith("  time_off.md, lines 10-13")
    assert "27 days of paid vacation" in text


def test_results_as_json(settings: Mapping[str, str]) -> None:
    lines = invoke("kb", "search", "handbook", "年假有多少天", "--json", environment=settings).stdout.splitlines()
    assert json.loads(lines[0])["docnm_kwd"] == "zh_handbook.md"


def test_no_match_and_a_missing_dataset(settings: Mapping[str, str]) -> None:
    assert invoke("kb", "search", "handbook", "zebra", environment=settings).stdout == "No chunks match the question.\n"
    assert isinstance(invoke("kb", "search", "none", "q", environment=settings).exception, SettingsError)


def test_everything_is_exported(tmp_path: Path, settings: Mapping[str, str]) -> None:
    assert invoke("kb", "export", "handbook", "-o", tmp_path / "out.jsonl", environment=settings).exit_code == 0
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text("utf-8").splitlines()]
    assert len(lines) == 20
    assert lines[-1]["metadata"] == {"department": "People", "year": 2026, "tags": ["上海"]}
    assert len(invoke("kb", "export", "handbook", environment=settings).stdout.splitlines()) == 20
    assert invoke("kb", "export", "handbook", "-o", tmp_path, environment=settings).exit_code == 2


def test_a_full_disk_is_reported(settings: Mapping[str, str]) -> None:
    failed = invoke("kb", "export", "handbook", "-o", "/dev/full", environment=settings).exception
    assert str(failed) == "/dev/full cannot be written: No space left on device."


def test_a_dataset_is_found_by_name_and_by_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGFLOW_LG_KNOWLEDGE__URL", f"sqlite:///{tmp_path}/k.db")
    fill(stored_knowledge(tmp_path / "k.db"), "d", {"a.md": ["x"]})
    database = knowledge_database(None)
    dataset = get_dataset(database, "d")
    assert get_dataset(database, dataset.id) == dataset
    with pytest.raises(SettingsError, match="kb list"):
        get_dataset(database, "none")
