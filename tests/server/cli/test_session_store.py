from pathlib import Path

import pytest

from tests.fakes.regions import out
from tests.harness.rows import each_row
from tests.server.cli.command import call, save
from tests.stores import fresh_prefix

COMMANDS = """sessions; sessions export; sessions delete --older-than 30; sessions delete anna;
    sessions prune anna --keep-turns 1; sessions history anna; sessions trace anna; sessions cancel anna;
    sessions fork anna; sessions rerun anna --from out; resume anna; continue anna"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with settings that have a key, which one of the commands needs."""
    monkeypatch.setenv("KEY", "eWVhciB5ZWFyIHllYXIgeWVhciB5ZWFyIHllYXIgeWU=")
    (tmp_path / "s.toml").write_text('[[encryption_keys]]\nid = "year"\nkey = { env = "KEY" }\n')
    monkeypatch.setenv("RAGFLOW_LG_SETTINGS", str(tmp_path / "s.toml"))
    return tmp_path


@each_row("command", [words.split() for words in COMMANDS.split(";")])
def test_what_reads_or_continues_sessions_creates_no_store(folder: Path, command: list[str]) -> None:
    before = sorted(folder.iterdir())
    result = call(*command, "--checkpoint", "sqlite:///new/ana.db")
    advice = "A run with --session creates it; --checkpoint names another store."
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"ragflow-lg: There is no session store 'new/ana.db'. {advice}\n"
    assert call(*command).stderr.startswith("ragflow-lg: There is no session store 'ragflow-lg.db'.")
    assert sorted(folder.iterdir()) == before


def test_a_store_with_a_similar_name_is_suggested(folder: Path) -> None:
    (folder / "sessions.db").touch()
    result = call("continue", "anna", "--checkpoint", "sqlite:///session.db")
    message = "There is no session store 'session.db'. Did you mean 'sessions.db'?"
    assert (result.returncode, result.stderr) == (2, f"ragflow-lg: {message}\n")


def test_a_mistyped_prefix_is_named(folder: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    prefix = fresh_prefix()
    monkeypatch.setenv("RAGFLOW_LG_CHECKPOINT_PREFIX", prefix)
    for _ in range(2):  # the first one has not created it
        result = call("sessions", "--checkpoint", redis_url)
        assert result.returncode == 2
        message = f"There is no session store at {redis_url} with the prefix {prefix!r}."
        assert result.stderr.startswith(f"ragflow-lg: {message}")


def test_what_writes_sessions_creates_the_store(folder: Path) -> None:
    save("c.json", out("{sys.query}"))
    assert call("run", "c.json", "hi", "--session", "anna", "--checkpoint", "sqlite:///a.db").returncode == 0
    assert call("sessions", "export", "-o", "a.jsonl", "--checkpoint", "sqlite:///a.db").returncode == 0
    assert call("sessions", "import", "a.jsonl", "--checkpoint", "sqlite:///b.db").returncode == 0
    assert call("sessions", "--checkpoint", "sqlite:///b.db").stdout.startswith("anna ")
