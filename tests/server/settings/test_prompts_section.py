from pathlib import Path

import pytest

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.settings import load_settings
from tests.server.settings.files import write


def test_prompts_are_texts_or_files_next_to_the_settings(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home / "conf/prompts/question.txt", "Rewrite: {conversation}\n")
    text = 'reflection = "Think."\nstandalone_question = { file = "prompts/question.txt" }'
    file = write(home / "conf/s.toml", f"[prompts]\n{text}")
    assert load_settings(file).prompts == {
        "reflection": "Think.",
        "standalone_question": "Rewrite: {conversation}\n",
    }
    monkeypatch.setenv("RAGFLOW_LG_PROMPTS__REFLECTION", "Think twice.")
    assert load_settings(file).prompts["reflection"] == "Think twice."


def test_a_byte_order_mark_is_not_part_of_a_prompt(home: Path) -> None:
    (home / "question.txt").write_text("Rewrite: {conversation}", "utf-8-sig")
    file = write(home / "s.toml", '[prompts]\nstandalone_question = { file = "question.txt" }')
    assert load_settings(file).prompts["standalone_question"] == "Rewrite: {conversation}"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('categorise = "x"', "categorise: there is no prompt with this name. Did you mean 'categorize'?"),
        ('categorize = "Choose."', "categorize: the text must contain {categories}."),
        ('reflection = ""', "reflection: the text is empty."),
        ('reflection = { path = "x" }', 'prompts.reflection: should be a text or { file = "PATH" }.'),
        ('reflection = { file = "missing.txt" }', "missing.txt cannot be read: No such file or directory."),
        ('reflection = { file = "bytes.txt" }', "bytes.txt is not UTF-8 text."),
        ('reflection = { file = "long.txt" }', "long.txt has more than 256 KiB."),
        ('reflection = { file = "/dev/zero" }', "/dev/zero is not a file."),
        ('reflection = { file = "." }', "cannot be read: Is a directory."),
        ("reflection = 1", "prompts.reflection: "),
        ('prompts = "x"', "prompts: "),
    ],
)
def test_problems_are_reported_at_the_start(home: Path, text: str, problem: str) -> None:
    (home / "bytes.txt").write_bytes(b"\xff")
    (home / "long.txt").write_text("x" * 300_000)
    head = "" if text.startswith("prompts") else "[prompts]\n"
    with pytest.raises(SettingsError) as failure:
        load_settings(write(home / "s.toml", head + text))
    assert problem in str(failure.value)
