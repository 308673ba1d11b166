from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from ragflow_lg.errors import SettingsError
from server.watch.audit import audit, open_audit
from server.watch.logs import RequestNotes, noting


def test_events_are_added_to_a_file_for_its_owner(tmp_path: Path) -> None:
    file = tmp_path / "logs" / "audit.jsonl"
    for number in (1, 2):
        with open_audit(file), noting(RequestNotes("r1", "10.0.0.1", "acme", "key-id")):
            audit("agent.deleted", agent=f"a{number}\n" + "x" * 1000)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["agent"][:2] for line in lines] == ["a1", "a2"]
    assert lines[0].pop("time").endswith("Z")
    assert len(lines[0].pop("agent")) == 500
    assert lines[0] == {
        "event": "agent.deleted",
        "tenant": "acme",
        "key": "key-id",
        "address": "10.0.0.1",
        "request": "r1",
    }
    assert file.stat().st_mode & 0o777 == 0o600


def test_without_a_file_they_stand_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "ragflow_lg.audit"), open_audit(None):
        audit("key.refused", path="/x")
    assert json.loads(caplog.messages[0]) == {"event": "key.refused", "path": "/x"}


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="audit"), open_audit(tmp_path):
        pass
