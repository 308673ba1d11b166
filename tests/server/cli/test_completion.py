"""Completion in real shells, and the words that it offers."""

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ragflow_lg.server.cli.completion_words import complete_line, complete_words
from tests.server.cli.command import ROOT, Cli, invoke

ROUTER = str(ROOT / "examples" / "customer_service_router.json")


@pytest.fixture
def session(cli: Cli) -> Cli:
    cli("run", ROUTER, "hello", "--model", "demo", "--session", "anna")
    return cli


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ragflow-lg che", ["check"]),
        ("ragflow-lg kb se", ["search"]),
        ("ragflow-lg check --ou", ["--output"]),
        ("ragflow-lg check x.json --output s", ["sarif"]),
        ("ragflow-lg check --output=j", ["json"]),
        ("ragflow-lg check x.json ", [":files"]),
        ("ragflow-lg run x.json --file ", [":files"]),
        ("ragflow-lg keys re", ["revoke"]),
        ("ragflow-lg completion ", ["bash", "zsh", "fish"]),
        ("ragflow-lg components userf", ["UserFillUp"]),
        ("ragflow-lg prompts categ", ["categorize"]),
        ("ragflow-lg nothing ", []),
        ("ragflow-lg run x.json question more ", []),
        ("ragflow-lg history ", []),
    ],
)
def test_a_line_is_completed(line: str, expected: list[str], cli: Cli) -> None:
    found = complete_line(line)
    assert found[: len(expected)] == expected
    assert bool(found) is bool(expected)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ragflow-lg history ", ["anna"]),
        ("ragflow-lg run x.json --session a", ["anna"]),
        ("ragflow-lg rerun anna --from LLM:", ["DeliveryDesk", "RefundDesk"]),
        ("ragflow-lg rerun anna --from Del", ["Delivery\\ desk"]),
        ("ragflow-lg rerun anna --from 'Del", ["Delivery desk"]),
        ("ragflow-lg rerun anna --from What", ["What\\ is\\ it\\ about\\?"]),
        ("ragflow-lg rerun nobody --from ", []),
    ],
)
def test_sessions_and_nodes_are_completed(line: str, expected: list[str], session: Cli) -> None:
    assert complete_line(line) == expected


def test_words_are_completed_without_quotes(session: Cli) -> None:
    assert complete_words(["rerun", "anna", "--from", "del"]) == ["Delivery desk"]


def test_completion_creates_no_store(cli: Cli) -> None:
    assert complete_words(["history", ""]) == []
    assert [path.name for path in Path().iterdir()] == ["words.json"]


def test_hostile_titles_send_nothing_to_the_terminal(cli: Cli) -> None:
    document = Path("words.json").read_text().replace('"ask"', '"\\u001b]0;owned\\u0007"')
    Path("words.json").write_text(document)
    cli("run", "words.json", "hello", "--session", "anna")
    done = cli("completion", "zsh", "--", "rerun", "anna", "--from", "")
    assert not {"\x1b", "\x07"} & set(done.stdout)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_valid(shell: str, tmp_path: Path) -> None:
    script = invoke("completion", shell).stdout
    assert "ragflow-lg completion" in script
    if program := shutil.which(shell):
        (tmp_path / "script").write_text(script)
        subprocess.run([program, "-n", str(tmp_path / "script")], check=True)


TYPED = {
    "ragflow-lg hist\t": "history ",
    "ragflow-lg history a\t": "anna ",
    "ragflow-lg rerun anna --from LLM:Ref\t": "LLM:RefundDesk ",
    'ragflow-lg rerun anna --from "Refu\t': '"Refund desk" ',
    "ragflow-lg check wor\t": "words.json ",
    "ragflow-lg draw words.json --format sv\t": "svg ",
}


def test_bash_completes(session: Cli) -> None:
    Path("bin").mkdir()
    program = Path("bin/ragflow-lg")
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ragflow_lg "$@"\n')
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{program.parent.absolute()}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    environment |= {"TERM": "dumb", "PS1": "$ ", "COLUMNS": "200"}
    child, terminal = pty.fork()
    if child == 0:
        os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], environment)
    try:
        os.write(terminal, b"source <(ragflow-lg completion bash); echo re''ady\n")
        _read_until(terminal, "\nready")
        for typed, shown in TYPED.items():
            os.write(terminal, typed.encode())
            assert shown in _read_until(terminal, shown)
            os.write(terminal, b"\x15")  # deletes the line
    finally:
        os.close(terminal)
        os.waitpid(child, 0)


def _read_until(terminal: int, expected: str) -> str:
    text, end = "", time.monotonic() + 30
    while expected not in text and time.monotonic() < end:
        if select.select([terminal], [], [], 0.2)[0]:
            text += os.read(terminal, 4096).decode("utf-8", "replace")
    return text
