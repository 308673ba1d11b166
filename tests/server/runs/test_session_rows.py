"""Sessions of a server are exported with everything that its database has of them, and go on in another server."""

import asyncio
import base64
import json
import sqlite3
import time
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from ragflow_lg.base.errors import ConflictError
from ragflow_lg.checkpoints.sessions.session_lines import FileLine, ServerLine
from ragflow_lg.server.database.database import open_database
from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.server.runs.session_rows import ImportRights, SessionRows
from tests.server.cli.command import Completed, call
from tests.server.http.app_server import ECHO, FORM, canvas, start_app

TAKEN = ("--tenant", "tenant", "--with-agents")
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
        run = (await server.ask(agent, "my question", files=[file]))["data"]
        native = f"{server.url}/native/v1/agents/{agent}"
        rated = await server.client.put(f"{native}/runs/{run['message_id']}/feedback", json={"rating": "up"})
        shared = await server.client.post(f"{native}/sessions/{run['session_id']}/share")
        assert (rated.status_code, shared.status_code) == (200, 201)
        return agent, run["session_id"], file["id"]


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
    imported = await command(there, "import", tmp_path / "all.jsonl", *TAKEN)  # it creates the database
    assert f"imported the agent 'Helper' ({agent}) of the tenant 'tenant': it opens nothing" in imported.stdout
    assert b"my question" not in (there / "server.db").read_bytes()
    async with start_app(there, **options_of(there, **keys)) as server:
        (shown,) = (await server.get(f"/agents/{agent}/sessions"))["data"]
        assert shown["id"] == session
        assert "my question" in str(shown)
        native = f"{server.url}/native/v1/agents/{agent}"
        (rated,) = (await server.get(f"{native}/feedback"))["feedback"]
        assert (rated["rating"], rated["session_id"], rated["author"]) == ("up", session, "")
        assert (await server.get(f"{native}/sessions/{session}"))["shared"] is False
        listed = (await server.get(f"{server.url}/native/v1/files"))["files"]
        assert [each["id"] for each in listed] == [file]
        assert (await server.client.get(f"/agents/attachments/{file}/download")).content == b"some notes"
        answered = await server.ask(agent, "", session_id=session, inputs={"size": {"value": "7"}})
        assert "7" in answered["data"]["data"]["content"]
    again = await command(there, "export", session)
    assert [json.loads(line)["line"] for line in again.stdout.splitlines()][-2:] == ["server", "file"]
    await command(there, "import", tmp_path / "all.jsonl", "--replace")  # the agent, its versions and the file stay
    await command(there, "delete", session)
    with sqlite3.connect(there / "server.db") as database:
        counts = [
            database.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
            for name in ("sessions", "messages", "feedback")
        ]
        assert (counts, database.execute("SELECT count(*) FROM runs").fetchone()) == ([0, 0, 0], (0,))


async def test_an_imported_run_does_not_go_on_by_itself(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    options_of(here)
    options_of(there)
    await play(here)
    columns = "status, restarts, request_hash, page_key"
    with closing(sqlite3.connect(here / "server.db")) as db, db:
        db.execute(f"UPDATE runs SET ({columns}, request_key) = ('drained', 1, 'hash', 'page', 'key')")
    await command(here, "export", "-o", tmp_path / "all.jsonl")
    await command(there, "import", tmp_path / "all.jsonl", *TAKEN)
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


async def test_rows_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    options_of(tmp_path / "here")
    _, session, file = await play(tmp_path / "here")
    async with open_database(f"sqlite:///{tmp_path}/here/server.db") as database:
        rows = SessionRows(database, tmp_path / "here" / "files")
        lines = [line async for line in rows.export(session, {file})]
    server, stored = lines
    assert isinstance(server, ServerLine)
    assert isinstance(stored, FileLine)

    def changed(table: str, **values: Any) -> ServerLine:
        first, *rest = server.rows[table]
        return ServerLine(session, {**server.rows, table: [{**first, **values}, *rest]})

    wrong: list[ServerLine | FileLine] = [
        ServerLine("0" * 32, server.rows),
        ServerLine(session, {**server.rows, "api_keys": []}),
        ServerLine(session, {**server.rows, "sessions": []}),
        changed("messages", session_id="0" * 32),
        changed("messages", tenant="another"),
        changed("runs", agent_id="0" * 32),
        changed("agents", id="0" * 32),
        changed("versions", agent_id="0" * 32),
        changed("sessions", rounds="many"),
        changed("sessions", user_id="x" * 300),
        changed("sessions", is_admin=True),
        changed("sessions", tokens=2**63),
        changed("sessions", rounds=2**31),
        changed("runs", start_ms=2**60),
        changed("messages", create_ms=-1),
        changed("messages", reference="chunks"),
        changed("versions", dsl="components"),
        changed("versions", dsl="[]"),
        changed("sessions", agent_id=None),
        changed("feedback", session_id="0" * 32),
        changed("feedback", agent_id="0" * 32),
        changed("feedback", run_id="0" * 32),
        changed("feedback", rating="good"),
        changed("feedback", note="x" * 2001),
        FileLine(session, {**stored.row, "id": "../../etc"}, stored.content),
        FileLine(session, {**stored.row, "tenant": "another"}, stored.content),
        FileLine(session, {**stored.row, "size_bytes": 1}, stored.content),
        FileLine(session, stored.row, "§"),
    ]
    async with open_database(f"sqlite:///{tmp_path}/new.db") as database:
        rows = SessionRows(database, tmp_path / "files", ImportRights("tenant", has_agents=True, max_bytes=10**6))
        for line in wrong:
            if isinstance(line, ServerLine):
                with pytest.raises(ValueError, match=r"."):
                    await rows.put(line)
        await rows.put(server)
        for line in wrong:
            if isinstance(line, FileLine):
                with pytest.raises(ValueError, match=r"."):
                    await rows.put(line)
        await rows.put(stored)
        for run in server.rows["runs"]:
            run["request_hash"] = ""  # a request is repeated where it was sent
        server.rows["sessions"][0]["share_digest"], server.rows["feedback"][0]["author"] = None, ""
        assert [line async for line in rows.export(session, {file})] == lines


async def test_a_file_that_does_not_fit_replaces_nothing(tmp_path: Path) -> None:
    here = tmp_path / "here"
    options_of(here)
    agent, session, _ = await play(here)
    await command(here, "export", "-o", tmp_path / "all.jsonl")
    lines: list[Any] = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    at = next(number for number, line in enumerate(lines) if line["line"] == "server")

    def with_session(**values: Any) -> list[Any]:
        rows = lines[at]["rows"]
        changed = {**lines[at], "rows": {**rows, "sessions": [{**rows["sessions"][0], **values}]}}
        return [*lines[:at], changed, *lines[at + 1 :]]

    wrong: list[list[Any]] = [
        with_session(rounds="many"),
        with_session(rounds=2**63),
        [*lines[:at], {**lines[at], "rows": {}}],
        [*lines[:-1], {**lines[-1], "content": "§"}],
    ]
    for number, of_file in enumerate(wrong):
        file = tmp_path / f"{number}.jsonl"
        file.write_text("".join(f"{json.dumps(line)}\n" for line in of_file))
        done = await asyncio.to_thread(call, "sessions", "import", file, "--replace", "--settings", here / "s.toml")
        assert done.returncode == 2, done.stderr
        assert "Traceback" not in done.stderr
    async with start_app(here, **options_of(here)) as server:
        answered = await server.ask(agent, "", session_id=session, inputs={"size": {"value": "7"}})
        assert "7" in answered["data"]["data"]["content"]


async def test_a_session_is_not_replaced_if_copies_would_lose_turns(tmp_path: Path) -> None:
    options = options_of(tmp_path / "here")
    words = ("sessions", "import", tmp_path / "all.jsonl", "--replace", "--settings", tmp_path / "here/s.toml")
    async with start_app(tmp_path / "here", **options) as server:
        agent = await server.agent(ECHO)
        session = (await server.ask(agent, "one"))["data"]["session_id"]
        await command(tmp_path / "here", "export", "-o", tmp_path / "all.jsonl")
        run = (await server.ask(agent, "two", session_id=session))["data"]["message_id"]
        of_run = f"{server.url}/native/v1/agents/{agent}/runs/{run}"
        copy = (await server.post(f"{of_run}/fork", {}))["session_id"]
        done = await asyncio.to_thread(call, *words)
        assert (done.returncode, f"would lose them: {copy}." in done.stderr) == (2, True), done.stderr
        assert (await server.get(of_run))["session_id"] == session
        await command(tmp_path / "here", "export", session, "-o", tmp_path / "all.jsonl")
        await command(tmp_path / "here", *words[1:4])
        assert (await server.get(of_run))["session_id"] == session


async def test_an_import_without_replace_leaves_the_messages_of_a_server_alone(tmp_path: Path) -> None:
    here, file = tmp_path / "here", tmp_path / "changed.jsonl"
    options_of(here)
    agent, session, _ = await play(here)
    await command(here, "export", "-o", tmp_path / "all.jsonl")
    lines: list[Any] = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    (at,) = [number for number, line in enumerate(lines) if line["line"] == "server"]
    text = json.dumps(lines[at]["rows"])
    tenant = lines[at]["rows"]["sessions"][0]["tenant"]
    foreign = {**lines[at], "rows": json.loads(text.replace(f'"tenant": "{tenant}"', '"tenant": "another"'))}
    changed = {**lines[at], "rows": json.loads(text.replace("my question", "other words"))}
    cases: list[tuple[list[Any], str, tuple[str, ...]]] = [
        ([*lines[:at], foreign], "names the tenant 'another', but they are for the tenant 'tenant'", ()),
        ([*lines[:at], foreign], "belongs to another tenant", ("--tenant", "another")),
        ([*lines[:at]], "belongs to another tenant", ("--tenant", "another", "--replace")),
        ([*lines[:at], changed], "--replace", ()),
        ([*lines[:at], *lines[at + 1 :]], "does not follow its session", ()),
    ]
    for wrong, words, options in cases:
        for stored in here.glob("sessions.db*"):
            stored.unlink()  # the steps have been deleted, but not the messages
        file.write_text("".join(f"{json.dumps(line)}\n" for line in wrong))
        done = await asyncio.to_thread(call, "sessions", "import", file, *options, "--settings", here / "s.toml")
        assert done.returncode == 2
        assert words in done.stderr
    async with start_app(here, **options_of(here)) as server:
        (shown,) = (await server.get(f"/agents/{agent}/sessions"))["data"]
    assert shown["id"] == session
    assert "my question" in str(shown)


async def test_a_version_of_another_agent_is_not_used(tmp_path: Path) -> None:
    options_of(tmp_path / "here")
    _, session, _ = await play(tmp_path / "here")
    async with open_database(f"sqlite:///{tmp_path}/here/server.db") as database:
        rows = SessionRows(database, tmp_path / "here" / "files")
        (line,) = [line async for line in rows.export(session, ())]
    assert isinstance(line, ServerLine)
    moved = {name: [dict(row) for row in of_table] for name, of_table in line.rows.items()}
    other = {"tenant": "another", "agent_id": "b" * 32, "session_id": "c" * 32}
    for of_table in moved.values():
        for row in of_table:
            row.update({name: value for name, value in other.items() if name in row})
    moved["agents"][0]["id"], moved["sessions"][0]["id"] = "b" * 32, "c" * 32
    async with open_database(f"sqlite:///{tmp_path}/here/server.db") as database:
        rights = ImportRights("another", has_agents=True)
        with pytest.raises(ConflictError, match="belongs to another agent"):
            await SessionRows(database, tmp_path / "files", rights).put(ServerLine("c" * 32, moved))


WEBHOOK = canvas(
    ("begin", "Begin", {"mode": "Webhook", "security": {"auth_type": "none"}, "methods": ["POST"]}, ["ExeSQL:0"]),
    ("ExeSQL:0", "ExeSQL", {"sql": "SELECT 1", "connection": "shop"}, ["Message:0"]),
    ("Message:0", "Message", {"content": ["planted"]}, []),
)
PLANTED_SESSION, PLANTED_AGENT, PLANTED_VERSION = "d" * 32, "e" * 32, "f" * 32


async def plant(folder: Path, agent_id: str = PLANTED_AGENT) -> str:
    """Write an exported session as an attacker changes it: with another tenant and canvas. Return its real agent."""
    async with start_app(folder, **options_of(folder)) as server:
        agent = await server.agent(FORM)
        session = (await server.ask(agent, "my question"))["data"]["session_id"]
    text = (await command(folder, "export", session)).stdout.replace(session, PLANTED_SESSION)
    text = text.replace(str(uuid.UUID(session)), str(uuid.UUID(PLANTED_SESSION)))
    for run_id in {stored["run"]["run_id"] for stored in json.loads(text.splitlines()[1])["runs"]}:
        text = text.replace(run_id, uuid.uuid4().hex)
    lines: list[Any] = [json.loads(line) for line in text.splitlines()]
    for line in lines:
        if line["line"] != "server":
            continue
        tables = line["rows"]
        for row in (row for rows in tables.values() for row in rows):
            row["tenant"] = "aaa"
            row |= {name: agent_id or agent for name in ("agent_id",) if name in row}
            row |= {name: PLANTED_VERSION for name in ("version_id",) if name in row}
        tables["agents"][0] |= {"id": agent_id or agent, "title": "planted", "title_key": "planted"}
        tables["versions"][0] |= {"id": PLANTED_VERSION, "dsl": json.dumps(WEBHOOK), "is_released": True}
        tables["versions"][0] |= {"create_ms": 2**42, "update_ms": 2**42}  # in the year 2109
        tables["sessions"][0] |= {"visitor": "v" * 32, "stored_bytes": 2**40}
    (folder / "planted.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return agent


async def import_planted(folder: Path, *options: str) -> tuple[int, str]:
    """Return the exit code of an import, and what it said."""
    file = folder / "planted.jsonl"
    done = await asyncio.to_thread(call, "sessions", "import", file, *options, "--settings", folder / "s.toml")
    return done.returncode, done.stderr + done.stdout


def select(folder: Path, statement: str) -> list[Any]:
    with sqlite3.connect(folder / "server.db") as database:
        return database.execute(statement).fetchall()


async def test_a_file_plants_no_agent_and_chooses_no_tenant(tmp_path: Path) -> None:
    here = tmp_path / "here"
    options_of(here)
    await plant(here)
    with (here / "s.toml").open("a") as settings:
        settings.write("[sql.connections.shop]\ndb_type = 'sqlite'\ndatabase = 'shop.db'\n")
    refused = await import_planted(here)
    assert "The file names the tenant 'aaa', but they are for the tenant 'tenant' here" in refused[1]
    async with open_database(f"sqlite:///{here}/server.db") as database:
        for tenant in ("aaa", "bbb"):
            await KeyRepository(database).create(tenant, 1)
    refused = await import_planted(here, "--with-agents")
    assert "this server has several tenants. Say with --tenant which one" in refused[1]
    for tenant in ("aaa", "bbb"):
        status, said = await import_planted(here, "--tenant", tenant)
        assert status == 2
        assert f"The tenant '{tenant}' has no agent: {PLANTED_AGENT}" in said
        assert "--with-agents" in said
    assert select(here, "SELECT title FROM agents") == [("Helper",)]
    assert select(here, f"SELECT id FROM sessions WHERE id = '{PLANTED_SESSION}'") == []
    status, said = await import_planted(here, "--tenant", "bbb", "--with-agents")  # the file names another one
    assert status == 0, said
    assert "imported the agent 'planted'" in said
    assert "of the tenant 'bbb': it opens a webhook that anybody may call, the database connection shop" in said
    of_session = f"SELECT tenant, visitor, stored_bytes < 1000000 FROM sessions WHERE id = '{PLANTED_SESSION}'"
    assert select(here, of_session) == [("bbb", "", 1)]
    assert select(here, "SELECT id FROM agents WHERE tenant = 'aaa'") == []


async def test_a_file_publishes_no_version_of_an_agent_that_exists(tmp_path: Path) -> None:
    here = tmp_path / "here"
    options_of(here)
    agent = await plant(here, "")
    status, said = await import_planted(here, "--tenant", "tenant")
    assert (status, f"an agent without this version: {agent}, version {PLANTED_VERSION}" in said) == (2, True)
    status, said = await import_planted(here, "--tenant", "tenant", "--with-agents")
    assert status == 0, said
    assert select(here, "SELECT title FROM agents") == [("Helper",)]
    assert select(here, "SELECT id FROM versions WHERE is_released") == []
    assert select(here, f"SELECT id FROM versions WHERE max(create_ms, update_ms) > {int(time.time() * 1000)}") == []
