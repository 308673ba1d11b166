from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.settings.secret import MAX_CHARS, Secret, missing_secrets
from ragflow_lg.server.settings.sections import ToolSection
from ragflow_lg.server.settings.settings_file import load_settings


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
    assert "cannot be read" in Secret(file="~nobody-of-this-name/key").problem()


@pytest.mark.parametrize("value", [1, None, [], {}, {"env": ""}, {"env": 1}, {"env": "A", "file": "B"}, {"url": "A"}])
def test_other_forms_are_refused(value: Any) -> None:
    with pytest.raises(ValidationError, match="VARIABLE"):
        ToolSection.model_validate({"api_key": value})


def test_files_are_beside_the_settings_and_missing_secrets_are_named(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(
        '[tools.tavily]\napi_key = { file = "keys/tavily" }\n'
        '[mcp.m]\nurl = "http://m.example"\nheaders = { Authorization = { env = "NO_SUCH_KEY_OF_TEST" } }\n'
        '[[encryption_keys]]\nid = "k"\nkey = { file = "keys/k" }\n'
    )
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "tavily").write_text("key")
    settings = load_settings(file)
    assert settings.tool_settings.keys == {"tavily": "key"}
    assert [place for place, _ in missing_secrets(settings)] == [
        "encryption_keys[0].key",
        "mcp.m.headers.Authorization",
    ]


def test_a_second_name_for_a_key_is_refused_with_the_form(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text("[tools.tavily]\napi_key_env = 'TAVILY_API_KEY'\n")
    with pytest.raises(SettingsError, match=r'unknown setting. Write api_key = \{ env = "…" \}'):
        load_settings(file)
