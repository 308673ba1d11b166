"""A ``.env`` beside the settings: where it is read, and that the environment wins."""

import os
from pathlib import Path

import pytest

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.settings import load_settings
from ragflow_lg.server.settings.dotenv_file import MAX_BYTES, find_untrusted
from ragflow_lg.server.settings.trusted_folders import trust
from tests.harness.rows import each_row
from tests.server.settings.files import write

KEYS = ("DEEPSEEK_API_KEY", "OPENAI_API_KEY", "RAGFLOW_LG_DEFAULT_MODEL", "DASHSCOPE_API_KEY")


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.setenv(name, "")  # restored after the test
        del os.environ[name]


@pytest.mark.parametrize("folder", ["work", ".config/ragflow-lg", "elsewhere"])
def test_a_key_beside_the_settings_is_enough(home: Path, folder: str) -> None:
    write(home / folder / ".env", "# keys\nexport DEEPSEEK_API_KEY='geheim-1'\nEMPTY\nOPENAI_API_KEY=${HOME}\n")
    if folder == "elsewhere":
        settings = load_settings(write(home / folder / "s.toml", ""))
    else:
        trust("settings", home / folder)
        name = "settings.toml" if folder.startswith(".config") else "ragflow-lg.toml"
        write(home / folder / name, "")
        settings = load_settings()
    providers = settings.chat_settings().known_providers
    assert providers["DeepSeek"].api_key == "geheim-1"
    assert providers["OpenAI"].api_key == "${HOME}"
    assert settings.chat_settings().default_model == "gpt-4.1-mini@OpenAI"


def test_settings_need_no_file_beside_it(home: Path) -> None:
    write(home / "work/.env", "RAGFLOW_LG_DEFAULT_MODEL=qwen-plus@Tongyi-Qianwen\nDASHSCOPE_API_KEY=geheim-2\n")
    assert load_settings().chat_settings().known_providers == {}
    assert find_untrusted() == home / "work/.env"
    trust("settings", home / "work")
    assert find_untrusted() is None
    settings = load_settings()
    assert settings.default_model == "qwen-plus@Tongyi-Qianwen"
    assert list(settings.chat_settings().known_providers) == ["Dashscope", "Tongyi-Qianwen"]


def test_the_environment_wins(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEPSEEK_API_KEY", "from the shell")
    monkeypatch.setenv("OPENAI_API_KEY", "")
    write(home / "s/.env", "DEEPSEEK_API_KEY=from-the-file\nOPENAI_API_KEY=x\n")
    providers = load_settings(write(home / "s/s.toml", "")).chat_settings().known_providers
    assert {name: each.api_key for name, each in providers.items()} == {"DeepSeek": "from the shell"}


def test_a_folder_that_is_not_trusted_is_not_read(home: Path) -> None:
    write(home / "work/.env", "OPENAI_API_KEY=theirs\n")
    write(home / "other/s.toml", "")
    assert load_settings(home / "other/s.toml").chat_settings().known_providers == {}
    write(home / ".config/ragflow-lg/settings.toml", "")
    assert load_settings().chat_settings().known_providers == {}
    assert "OPENAI_API_KEY" not in os.environ


@each_row(
    ("content", "problem"),
    [
        (b"OPENAI_API_KEY=\xff", r"\.env is not UTF-8 text \(at byte 15\)"),
        (b"A=" + b"x" * MAX_BYTES, "has more than 64 KiB"),
        (b"OPENAI_API_KEY=geh\0eim", "'OPENAI_API_KEY' is not a variable with a valid name and value"),
        (b"'A B'=geheim", "'A B' is not a variable"),
    ],
)
def test_unusable_files_are_reported_without_values(home: Path, content: bytes, problem: str) -> None:
    write(home / "s/s.toml", "")
    (home / "s/.env").write_bytes(content)
    with pytest.raises(SettingsError, match=problem) as caught:
        load_settings(home / "s/s.toml")
    assert "geh" not in str(caught.value)
