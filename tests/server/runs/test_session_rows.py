"""Sessions of a server are exported with everything that its database has of them, and go on in another server."""

import asyncio
import base64
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from tests.server.cli.command import Completed, call
from tests.server.http.app_server import FORM, start_app

KEY = base64.b64encode(b"k" * 32).decode()


def options_of(folder: Path, **sections: Any) -> dict[str, Any]:
    """Return the options of a server whose data are in a folder."""
    folder.mkdir(exist_ok=True)
    database, files = folder / "server.db", folder / "files"
    text = f"checkpoints = 'sqlite:///{folder}/sessions.db'\n[server]\ndatabase = 'sqlite:///{database}'\n"
    text += f"files = '{files}'\n"
    if sections:
        text += f"[[encryption_keys]]\nid = 'k'\nkey = '{KEY}'\n"
    (folder / "s.toml").write_text(text)
    url = f"sqlite:///{folder}/sessions.db"
    return {"checkpoints": url, "sections": sections, "database": SecretStr(f"sqlite:///{database}"), "files": files}


async def command(folder: Path, *words: str | Path) -> Completed:
    """Run the command with the settings of a server that is not running."""
    done = await asyncio.to_thread(call, "sessions", *words, "--settings", folder / "s.toml")
    assert done.returncode == 0, done.stderr
    return done


async def play(folder: Path) -> tuple[str, str, str]:
    """Play a turn with a file that waits at its form. Return the agent, the session and the file."""
    async with start_app(folder, **options_of(folder)) as server:
        agent = await server.agent(FORM)
        sent = await server.client.post(f"/agents/{agent}/upload", files={"file": ("a.txt", b"some notes")})
        file = sent.json()["data"]
        await server.client.post(f"/agents/{agent}/upload", files={"file": ("b.txt", b"of somebody else")})
        return agent, (await server.ask(agent, "my question", files=[file]))["data"]["session_id"], file["id"]


async def test_a_session_goes_on_in_another_server(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    options_of(here)
    agent, session, file = await play(here)
    await command(here, "export", "-o", tmp_path / "all.jsonl")
    exported = (tmp_path / "all.jsonl").read_text()
    assert base64.b64encode(b"some notes").decode() in exported
    assert base64.b64encode(b"of somebody else").decode() not in exported
    keys = {"encryption_keys": [{"id": "k", "key": KEY}]}
    options_of(there, **keys)
    imported = await command(there, "import", tmp_path / "all.jsonl")  # it creates the database
    assert f"imported the agent 'Helper' ({agent}) of the tenant 'tenant'" in imported.stdout
    assert b"my question" not in (there / "server.db").read_bytes()
    async with start_app(there, **options_of(there, **keys)) as server:
        (shown,) = (await server.get(f"/agents/{agent}/sessions"))["data"]
        assert shown["id"] == session
        assert "my question" in str(shown)
        listed = (await server.get(f"{server.url}/native/v1/files"))["files"]
        assert [each["id"] for each in listed] == [file]
        assert (await server.client.get(f"/agents/attachments/{file}/download")).content == b"some notes"
        answered = await server.ask(agent, "", session_id=session, inputs={"size": {"value": "7"}})
        assert "7" in answered["data"]["data"]["content"]
    again = await command(there, "export", session)
    assert [json.loads(line)["line"] for line in again.stdout.splitlines()][-2:] == ["server", "file"]
    await command(there, "delete", session)
    with sqlite3.connect(there / "server.db") as database:
        counts = [database.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in ("sessions", "messages")]
        assert (counts, database.execute("SELECT count(*) FROM runs").fetchone()) == ([0, 0], (0,))


async def test_an_imported_run_does_not_go_on_by_itself(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    options_of(here)
    options_of(there)
    await play(here)
    columns = "status, restarts, request_hash, page_key"
    with closing(sqlite3.connect(here / "server.db")) as db, db:
        db.execute(f"UPDATE runs SET ({columns}, request_key) = ('drained', 1, 'hash', 'page', 'key')")
    await command(here, "export", "-o", tmp_path / "all.jsonl")
    await command(there, "import", tmp_path / "all.jsonl")
    with closing(sqlite3.connect(there / "server.db")) as db:
        rows = db.execute(f"SELECT {columns}, request_key FROM runs").fetchall()
    assert rows == [("forked", 0, "", "", None)]


async def test_an_import_says_what_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options_of(tmp_path / "here")
    await play(tmp_path / "here")
    await command(tmp_path / "here", "export", "-o", tmp_path / "all.jsonl")
    monkeypatch.chdir(tmp_path)
    without = await asyncio.to_thread(call, "sessions", "import", "all.jsonl")
    assert without.returncode == 0
    assert "The messages, runs, agents and files of a server in this file are left out: there is no" in without.stderr
    assert not (tmp_path / "ragflow-lg-server.db").exists()
    there = tmp_path / "there"
    options_of(there)
    other = await command(there, "import", tmp_path / "all.jsonl", "--checkpoint", "sqlite:///other.db")
    assert "left out: with --checkpoint, only that store is used" in other.stderr
    assert not (there / "server.db").exists()
    (there / "s.toml").write_text(f"checkpoints = 'sqlite:///new.db'\n[server]\ndatabase = 'sqlite:///{there}'\n")
    refused = await asyncio.to_thread(call, "sessions", "import", "all.jsonl", "--settings", there / "s.toml")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "cannot be used: it is a folder" in refused.stderr


async def test_an_import_changes_nothing_that_the_server_has(tmp_path: Path) -> None:
    here = tmp_path / "here"
    options_of(here)
    agent, session, _ = await play(here)
    await command(here, "export", "-o", tmp_path / "all.jsonl")
    for stored in here.glob("sessions.db*"):
        stored.unlink()  # the steps have been deleted, but not the messages

    async def refuse(*options: str) -> str:
        words = ("sessions", "import", tmp_path / "all.jsonl", *options, "--settings", here / "s.toml")
        done = await asyncio.to_thread(call, *words)
        assert done.returncode == 2
        return done.stderr

    assert "The server has messages of the session." in await refuse()
    with closing(sqlite3.connect(here / "server.db")) as db, db:
        for table in ("sessions", "messages", "runs"):
            db.execute(f"DELETE FROM {table}")
        db.execute("UPDATE agents SET title = 'Changed'")
        db.execute("DELETE FROM versions")
    assert f"The agent {agent} belongs to the tenant 'tenant' here" in await refuse("--tenant", "another")
    await command(here, "import", tmp_path / "all.jsonl")
    with closing(sqlite3.connect(here / "server.db")) as db:
        assert db.execute("SELECT title FROM agents").fetchall() == [("Changed",)]
        assert db.execute("SELECT max(is_released) FROM versions").fetchall() == [(0,)]
        assert db.execute("SELECT id FROM sessions").fetchall() == [(session,)]


async def test_wrong_rows_are_refused(tmp_path: Path) -> None:
    here, there, file = tmp_path / "here", tmp_path / "there", tmp_path / "wrong.jsonl"
    options_of(here)
    options_of(there)
    await play(here)
    await command(here, "export", "-o", tmp_path / "all.jsonl")
    lines: list[Any] = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    at = next(number for number, line in enumerate(lines) if line["line"] == "server")
    (row,) = lines[at]["rows"]["sessions"]
    wrong: list[list[Any]] = [
        [*lines[:at], {**lines[at], "rows": {}}],
        [*lines[:at], {**lines[at], "rows": {**lines[at]["rows"], "sessions": [{**row, "is_admin": True}]}}],
        [*lines[:-1], {**lines[-1], "content": "§"}],
        [*lines[:1], lines[at]],
    ]
    for of_file in wrong:
        file.write_text("".join(f"{json.dumps(line)}\n" for line in of_file))
        done = await asyncio.to_thread(call, "sessions", "import", file, "--settings", there / "s.toml")
        assert done.returncode == 2, done.stderr
        assert "Traceback" not in done.stderr
    with closing(sqlite3.connect(there / "server.db")) as db:
        counts = [db.execute(f"SELECT count(*) FROM {name}").fetchone() for name in ("sessions", "messages", "runs")]
    assert counts == [(0,)] * 3
    await command(there, "import", tmp_path / "all.jsonl")
