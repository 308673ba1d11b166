"""Deleting sessions deletes the uploaded files that nothing else names, in stores and databases of every kind."""

import asyncio
import copy
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from ragflow_lg.server.runs.session_files import SessionFiles
from tests.fakes.services import Reply
from tests.server.cli.command import Completed, call
from tests.server.http.app_server import ECHO, AppServer, asks, start_app


@pytest.fixture
def options(shared_url: str, tmp_path: Path, database_url: str) -> dict[str, Any]:
    """Options of a server whose settings are in `tmp_path`."""
    files = tmp_path / "files"
    text = f"checkpoints = '{shared_url}'\n[server]\ndatabase = '{database_url}'\nfiles = '{files}'\n"
    (tmp_path / "s.toml").write_text(text)
    return {"checkpoints": shared_url, "database": SecretStr(database_url), "files": files}


async def delete(folder: Path, *words: str) -> Completed:
    done = await asyncio.to_thread(call, "sessions", "delete", *words, "--settings", folder / "s.toml")
    assert done.returncode == 0, done.stderr
    return done


async def upload(server: AppServer, agent: str, name: str) -> dict[str, Any]:
    sent = await server.client.post(f"/agents/{agent}/upload", files={"file": (name, b"notes of " + name.encode())})
    return sent.json()["data"]


async def talk(server: AppServer, agent: str, user: str, files: Sequence[dict[str, Any]]) -> str:
    return (await server.ask(agent, "hello", files=files, user_id=user))["data"]["session_id"]


async def stored(server: AppServer, options: dict[str, Any]) -> list[str]:
    """Return the names of the files, which are in the folder as well."""
    listed = (await server.get(f"{server.url}/native/v1/files"))["files"]
    folder: Path = options["files"]
    assert len([path for path in folder.rglob("*") if path.is_file()]) == len(listed)
    return sorted(each["name"] for each in listed)


async def test_files_that_no_other_session_names_are_deleted(tmp_path: Path, options: dict[str, Any]) -> None:
    async with start_app(tmp_path, **options) as server:
        agent, other = await server.agent(ECHO), await server.agent(ECHO, "Other")
        mine, shared, unused = [await upload(server, agent, name) for name in ("mine", "shared", "unused")]
        foreign = await upload(server, other, "foreign")
        for user, files in (("u1", [mine, shared]), ("u1", [mine]), ("u2", [shared])):
            await talk(server, agent, user, files)
        kept = await talk(server, other, "u3", [foreign])
        assert unused["id"] != mine["id"]
        deleted = await delete(tmp_path, "--user", "u1")
        assert [line.rpartition(" and ")[2] for line in deleted.stdout.splitlines()] == ["0 files", "1 file"]
        assert await stored(server, options) == ["foreign", "shared", "unused"]
        await delete(tmp_path, "--user", "u2")
        assert await stored(server, options) == ["foreign", "unused"]
        await delete(tmp_path, kept)
        assert await stored(server, options) == ["unused"]


async def test_a_file_stays_if_a_session_that_cannot_be_read_may_name_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/sessions.db"
    async with start_app(tmp_path, checkpoints=url) as server:
        agent = await server.agent(ECHO)
        file = await upload(server, agent, "mine")
        first, second = await talk(server, agent, "u1", [file]), await talk(server, agent, "u2", [])
        app_state = server.app_state
        lease = await app_state.store.leases.acquire(second, lambda: None)
        files = SessionFiles(app_state.store, app_state.database, tmp_path / "files")
        await files.find([first, second])
        assert await files.delete_of(first) == 0
        await lease.release()
        files = SessionFiles(app_state.store, app_state.database, tmp_path / "files")
        await files.find([first])
        assert await files.delete_of(first) == 1


async def test_a_file_stays_if_a_canvas_names_it(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        agent = await server.agent(ECHO)
        file = await upload(server, agent, "mine")
        session = await talk(server, agent, "u1", [file])
        dsl = copy.deepcopy(ECHO)
        dsl["components"]["Message:0"]["obj"]["params"]["content"] = [f"/api/v1/agents/attachments/{file['id']}"]
        assert (await server.client.put(f"/agents/{agent}", json={"dsl": dsl})).json()["code"] == 0
        files = SessionFiles(server.app_state.store, server.app_state.database, tmp_path / "files")
        await files.find([session])
        assert await files.delete_of(session) == 0


async def test_forks_keep_the_turns_that_they_show(tmp_path: Path, options: dict[str, Any]) -> None:
    async with start_app(tmp_path, [Reply("1"), Reply("2")], **options) as server:
        native = f"{server.url}/native/v1/agents/{await server.agent(asks('hi'))}"
        first = await server.post(f"{native}/runs", {"query": "one"})
        session = first["session_id"]
        second = await server.post(f"{native}/runs", {"query": "two", "session_id": session})
        forks = [(await server.post(f"{native}/runs/{second['id']}/fork", {}))["session_id"] for _ in range(2)]
        nodes = await server.get(f"{native}/runs/{first['id']}/nodes")
        assert nodes["calls"]
        await delete(tmp_path, session)
        heir = (await server.get(f"{native}/runs/{first['id']}"))["session_id"]
        assert heir in forks
        await delete(tmp_path, heir)
        assert (await server.get(f"{native}/runs/{first['id']}"))["session_id"] in {*forks} - {heir}
        assert await server.get(f"{native}/runs/{first['id']}/nodes") == nodes


async def test_a_damaged_session_with_a_fork_is_deleted(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/sessions.db"
    (tmp_path / "s.toml").write_text(f"checkpoints = '{url}'\n[server]\ndatabase = 'sqlite:///{tmp_path}/server.db'\n")
    async with start_app(tmp_path, checkpoints=url) as server:
        native = f"{server.url}/native/v1/agents/{await server.agent(ECHO)}"
        run = await server.post(f"{native}/runs", {"query": "one"})
        await server.post(f"{native}/runs/{run['id']}/fork", {})
        with closing(sqlite3.connect(tmp_path / "sessions.db")) as store, store:
            store.execute("UPDATE runs SET status = 'nonsense' WHERE run_id = ?", (run["id"],))
        await delete(tmp_path, run["session_id"])
