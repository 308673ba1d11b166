from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from ragflow_lg.server.settings.secret import MAX_CHARS, Secret
from ragflow_lg.server.settings.sections import ToolSection
from ragflow_lg.server.settings.settings import Settings


def test_a_secret_is_a_text_or_is_read_when_it_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "key"
    sections = [ToolSection.model_validate({"api_key": value}) for value in ("a", {"env": "E"}, {"file": str(file)})]
    assert [section.api_key.problem() for section in sections] == [
        "",
        "the environment variable 'E' is not set",
        f"the file {str(file)!r} cannot be read, or is empty",
    ]
    assert [section.api_key.read() for section in sections] == ["a", "", ""]
    monkeypatch.setenv("E", " b ")
    file.write_text("c\n")
    assert [section.api_key.read() for section in sections] == ["a", "b", "c"]
    assert not any(section.api_key.problem() for section in sections)


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "long").write_text("x" * (MAX_CHARS + 1))
    assert len(Secret(file=str(tmp_path / "long")).read()) == MAX_CHARS
    assert Secret(file="/dev/zero").read() == ""
    assert "cannot be read" in Secret(file=str(tmp_path)).problem()


@pytest.mark.parametrize("value", [1, None, [], {}, {"env": ""}, {"env": 1}, {"env": "A", "file": "B"}, {"url": "A"}])
def test_other_forms_are_refused(value: Any) -> None:
    with pytest.raises(ValidationError, match="VARIABLE"):
        ToolSection.model_validate({"api_key": value})


def test_a_variable_of_the_environment_overrides_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGFLOW_LG_TOOLS__TAVILY__API_KEY", "1e5")
    settings = Settings.model_validate({"tools": {"tavily": {"api_key": {"env": "NO_SUCH"}}}})
    assert settings.tool_settings.keys == {"tavily": "1e5"}
