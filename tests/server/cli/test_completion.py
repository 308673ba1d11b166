"""Completion in a real shell."""

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.server.cli.command import ROOT, Cli, invoke

ROUTER = str(ROOT / "examples" / "customer_service_router.json")


@pytest.fixture
def session(cli: Cli) -> Cli:
    cli("run", ROUTER, "hello", "--model", "demo", "--session", "anna")
    return cli


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_valid(shell: str, tmp_path: Path) -> None:
    script = invoke("completion", shell).stdout
    assert "ragflow-lg" in script
    if program := shutil.which(shell):
        (tmp_path / "script").write_text(script)
        subprocess.run([program, "-n", str(tmp_path / "script")], check=True)


TYPED = {
    "ragflow-lg hist\t": "history ",
    "ragflow-lg history a\t": "anna ",
    "ragflow-lg run words.json --session a\t": "anna ",
    "ragflow-lg components UserF\t": "UserFillUp ",
    "ragflow-lg keys re\t": "revoke ",
    "ragflow-lg check wor\t": "words.json ",
    "ragflow-lg draw words.json --format sv\t": "svg ",
}


@pytest.mark.slow
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
