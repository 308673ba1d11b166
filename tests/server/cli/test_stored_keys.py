"""A user encrypts a store, changes the key, and loses one."""

import asyncio
import base64
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ragflow_lg.checkpoints import open_store
from ragflow_lg.server.settings import load_settings
from tests.fakes.regions import out
from tests.server.cli.command import call, save

KEYS = {name: base64.b64encode(name.encode() * 8).decode() for name in ("year", "next")}


def write_settings(folder: Path, *names: str) -> None:
    sections = [f'[[encryption_keys]]\nid = "{name}"\nkey = {{ env = "KEY_{name.upper()}" }}\n' for name in names]
    (folder / "s.toml").write_text("".join(sections))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a canvas and a plain session."""
    for name, key in KEYS.items():
        monkeypatch.setenv(f"KEY_{name.upper()}", key)
    monkeypatch.setenv("RAGFLOW_LG_SETTINGS", str(tmp_path / "s.toml"))
    save("c.json", out("{sys.query}"))
    write_settings(tmp_path)
    assert call("run", "c.json", "horse " + "x" * 3000, "--session", "anna").returncode == 0
    return tmp_path


def test_a_session_that_is_written_again_needs_the_first_key_alone(folder: Path) -> None:
    write_settings(folder, "year")
    assert call("run", "c.json", "horse " + "y" * 3000, "--session", "ben").returncode == 0
    write_settings(folder, "next", "year")
    before = sorted(call("sessions", "export").stdout.splitlines())
    for name in ("anna", "ben"):
        (folder / f"{name}.jsonl").write_text(call("sessions", "export", name).stdout)
        assert call("sessions", "delete", name).returncode == 0
        assert call("sessions", "import", f"{name}.jsonl").returncode == 0
    write_settings(folder, "next")
    assert sorted(call("sessions", "export").stdout.splitlines()) == before
    assert "ok    sessions are encrypted with the key 'next'" in call("doctor").stdout


async def put_traces(session: str) -> None:
    settings = load_settings()
    async with open_store(settings.checkpoints, **settings.store_options) as store:
        (record,) = [record async for record in store.runs.sessions() if record.name == session]
        for table in (store.traces, store.node_logs):
            await table.put(record, [{"component_id": "a", "trace": []}])


def test_sessions_whose_key_is_lost_can_be_deleted(folder: Path) -> None:
    write_settings(folder, "year")
    for name in ("ben", "carl"):
        assert call("run", "c.json", "hello", "--session", name).returncode == 0
    asyncio.run(put_traces("ben"))
    with closing(sqlite3.connect(folder / "ragflow-lg.db")) as file:
        file.execute("DELETE FROM runs WHERE name = 'carl'")
        file.commit()
    write_settings(folder, "next")
    assert "'year'" in call("sessions", "export", "ben").stderr
    done = call("sessions", "delete", "ben", "carl")
    assert (done.returncode, done.stderr) == (0, "")
    counts = [re.sub(r"\d+ checkpoints", "…", line) for line in done.stdout.splitlines()]
    assert counts == ["deleted ben: … and 1 run", "deleted carl: … and 0 runs"]
    assert "There is no session" in call("sessions", "delete", "carl").stderr


def test_a_lost_key_is_reported_and_other_sessions_go_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert call("sessions", "delete", "anna").returncode == 0
    write_settings(folder, "year")
    assert call("run", "c.json", "hello", "--session", "anna").returncode == 0
    write_settings(folder, "next")
    missing = "encrypted with the key 'year', which is not among the `encryption_keys`"
    failed = call("run", "c.json", "hello", "--session", "anna")
    assert failed.returncode != 0
    assert missing in failed.stderr
    pruned = call("sessions", "prune", "--keep-turns", "1")
    assert (pruned.returncode, pruned.stdout.count(missing)) == (2, 1)
    assert pruned.stderr == "ragflow-lg: 1 session could not be pruned, because a key is missing.\n"
    assert call("run", "c.json", "hello", "--session", "ben").returncode == 0
    assert "deleted anna" in call("sessions", "delete", "anna").stdout
    monkeypatch.delenv("KEY_NEXT")
    assert "the environment variable 'KEY_NEXT' is not set" in call("sessions").stderr
