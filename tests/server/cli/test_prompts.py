from pathlib import Path

import pytest

from ragflow_lg.models.prompt_texts import PROMPTS
from tests.server.cli.command import invoke, one_line


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    file = tmp_path / "s.toml"
    file.write_text('[prompts]\nreflection = "Think."\n')
    return file


def test_all_prompts_are_listed(settings: Path) -> None:
    lines = invoke("prompts", "--settings", settings).stdout.splitlines()
    assert [line.split()[0] for line in lines[: len(PROMPTS)]] == list(PROMPTS)
    assert [line.split()[0] for line in lines if "(replaced)" in line] == ["reflection"]


def test_the_text_in_use_is_printed(settings: Path) -> None:
    assert invoke("prompts", "reflection", "--settings", settings).stdout == "Think.\n"
    assert invoke("prompts", "categorize", "--settings", settings).stdout == PROMPTS["categorize"].text + "\n"


def test_an_unknown_name_is_refused(settings: Path) -> None:
    result = invoke("prompts", "categorise", "--settings", settings)
    assert result.exit_code == 2
    assert "There is no prompt 'categorise'. Did you mean categorize?" in one_line(result.output)
