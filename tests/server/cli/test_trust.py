import os
import pty
import subprocess
from importlib import import_module
from pathlib import Path

import pytest

from tests.harness.loaded_python import python_command
from tests.harness.rows import each_row
from tests.server.cli.command import Cli

import_module("mcp.client.stdio")  # programs of servers write to what is the standard error then


@pytest.fixture
def poisoned(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose settings start a program that leaves a file."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    mark = tmp_path / "started"
    (tmp_path / "ragflow-lg.db").touch()
    (tmp_path / "ragflow-lg.toml").write_text(f'[mcp.tool]\ncommand = "touch"\nargs = ["{mark}"]\n')
    return mark


@each_row("command", ["doctor", "sessions", "serve", "run words.json hi", "studio . --no-server"])
def test_settings_that_came_with_a_folder_start_nothing(cli: Cli, poisoned: Path, command: str) -> None:
    done = cli(*command.split())
    assert done.returncode == 2
    assert "the folder is not trusted" in done.stderr
    assert not poisoned.exists()


def test_a_folder_is_trusted_until_that_is_taken_back(cli: Cli, poisoned: Path) -> None:
    assert cli("trust").returncode == 0
    assert cli("sessions").returncode == 0
    cli("doctor")
    assert poisoned.exists()
    assert cli("trust", ".", "--remove").returncode == 0
    assert "was not trusted" in cli("trust", ".", "--remove").stdout
    assert cli("sessions").returncode == 2
    assert "is not a folder" in cli("trust", "nowhere").stderr


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 2), ("", 2)])
def test_the_terminal_asks_once(poisoned: Path, tmp_path: Path, answer: str, code: int) -> None:
    outer, inner = pty.openpty()
    command = python_command("-m", "ragflow_lg", "sessions")
    try:
        os.write(outer, f"{answer}\n".encode())
        done = subprocess.run(command, cwd=tmp_path, stdin=inner, stderr=inner, stdout=subprocess.DEVNULL, check=False)
        shown = os.read(outer, 10_000).decode()
    finally:
        os.close(inner)
        os.close(outer)
    assert done.returncode == code, shown
    assert "Use them now and in future?" in shown
    again = subprocess.run(command, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert again.returncode == code
