import subprocess
from pathlib import Path

import pytest

from ragflow_lg.server.cli.init import FILES
from tests.harness.rows import each_row
from tests.server.cli.command import Cli

TURN_OPTIONS = ("--model", "demo", "--events", "pretty")


def test_a_new_folder_works_with_the_command_that_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    done = cli("init", "my agents")
    assert done.returncode == 0
    assert "cd 'my agents' && ragflow-lg chat agent.json --model demo" in done.stderr
    assert sorted(path.name for path in Path("my agents").iterdir()) == sorted(FILES)
    monkeypatch.chdir("my agents")
    turn = cli("run", "agent.json", "What can you do?", *TURN_OPTIONS, "--session", "anna")
    assert (turn.returncode, "would now answer" in turn.stdout) == (0, True)
    assert "can run (0 errors, 0 warnings)" in cli("check", "agent.json").stdout


def test_the_files_are_ignored_by_git_or_meant_for_it(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("init", "new")
    monkeypatch.chdir("new")
    cli("run", "agent.json", "hello", *TURN_OPTIONS, "--session", "anna")
    Path(".env").write_text("OPENAI_API_KEY=secret\n")
    subprocess.run(["git", "init", "-q"], check=True)
    listed = subprocess.run(
        ["git", "ls-files", "--others", "--exclude-standard"], capture_output=True, text=True, check=True
    )
    assert sorted(listed.stdout.split()) == sorted(FILES)


@each_row("name", FILES)
def test_nothing_is_overwritten(name: str, cli: Cli) -> None:
    Path(f"my{name}").mkdir()
    Path(f"my{name}", name).write_text("mine")
    done = cli("init", f"my{name}")
    assert (done.returncode, f"'my{name}' has {name}" in done.stderr) == (2, True)
    assert [path.read_text() for path in Path(f"my{name}").iterdir()] == ["mine"]


def test_a_link_that_leads_nowhere_is_not_followed(cli: Cli) -> None:
    Path("mine").mkdir()
    Path("mine", "agent.json").symlink_to("elsewhere.json")
    assert cli("init", "mine").returncode == 2
    assert not Path("mine", "elsewhere.json").exists()


@each_row("name", ["words.json", "words.json/below"])
def test_a_folder_that_cannot_be_made_is_reported(name: str, cli: Cli) -> None:
    done = cli("init", name)
    assert (done.returncode, "Traceback" in done.stderr, repr(name) in done.stderr) == (2, False, True)
