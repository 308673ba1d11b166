"""Old sessions and files are deleted with everything that belongs to them, wherever it is stored."""

import asyncio
import base64
import sqlite3
from pathlib import Path
from typing import Any

from ragflow_lg.base.ids import thread_of_session
from ragflow_lg.checkpoints import open_store
from ragflow_lg.server.agents.retention import delete_old_files, delete_old_sessions, delete_stored_session
from ragflow_lg.server.database.database import open_database
from ragflow_lg.server.database.session_repository import RunRepository, SessionRepository
from ragflow_lg.server.database.tables import RunRow
from ragflow_lg.services.sessions import RunRecord, hold_lease
from tests.server.database.rows import agent, message, session
from tests.server.http.app_server import ECHO, AppServer, start_app
from tests.stores import fresh_prefix, redis_client, redis_keys

SECRET = "correct-horse"
KEY = {"id": "k", "key": base64.b64encode(b"k" * 32).decode()}


def rows_with(folder: Path, *texts: str) -> dict[str, int]:
    """Return how many rows of each table of the database contain one of the texts."""
    with sqlite3.connect(folder / "server.db") as database:
        tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows = {name: [str(row) for row in database.execute(f"SELECT * FROM {name}")] for name in tables}
    found = {name: sum(any(text in row for text in texts) for row in of_table) for name, of_table in rows.items()}
    return {name: count for name, count in found.items() if count}


async def keys_with(url: str, prefix: str, *texts: str) -> list[str]:
    client: Any = redis_client(url)
    keys = [key for key in await redis_keys(client, f"*{prefix}*") if any(text in key for text in texts)]
    keys += [key for key in await redis_keys(client, "write_keys_zset:*") if any(text in key for text in texts)]
    await client.aclose()
    return keys


async def contents(url: str, prefix: str) -> bytes:
    client: Any = redis_client(url)
    dumps = [await client.dump(key) for key in await redis_keys(client, f"{prefix}*")]
    await client.aclose()
    return b"".join(dumps)


def make_old(folder: Path, table: str, column: str, id_: str) -> None:
    with sqlite3.connect(folder / "server.db") as database:
        assert database.execute(f"UPDATE {table} SET {column} = 1 WHERE id = ?", (id_,)).rowcount == 1


async def chat(server: AppServer, agent: str) -> tuple[str, str]:
    """Play a turn. Return its session and its run."""
    answer = (await server.ask(agent, SECRET))["data"]
    return answer["session_id"], answer["message_id"]


async def test_nothing_is_left_of_an_old_session(tmp_path: Path, redis_url: str) -> None:
    prefix = fresh_prefix()
    sections = {"checkpoint_prefix": prefix, "retention": {"session_days": 30}, "encryption_keys": [KEY]}
    async with start_app(tmp_path, checkpoints=redis_url, sections=sections) as server:
        agent = await server.agent(ECHO)
        (old, old_run), (new, _) = await chat(server, agent), await chat(server, agent)
        store = server.app_state.store
        record = await anext(aiter(store.runs.of_session(old)))
        for table in (store.traces, store.node_logs):
            await table.put(record, [{"component_id": "a", "trace": []}])
        texts = (old, str(thread_of_session(old)), old_run)
        native = f"{server.url}/native/v1/agents/{agent}/runs/{old_run}/feedback"
        assert (await server.client.put(native, json={"rating": "up", "note": SECRET})).status_code == 200
        assert set(rows_with(tmp_path, *texts)) == {"sessions", "messages", "runs", "feedback"}
        stored = await keys_with(redis_url, prefix, *texts)
        for kind in ("agent:events:", "agent:run:", "-logs", "-nodes", "checkpoints", "blobs"):
            assert any(kind in key for key in stored), kind
        assert SECRET.encode() not in await contents(redis_url, prefix)
        assert rows_with(tmp_path, SECRET) == {}
        assert await delete_old_sessions(server.app_state) == 0
        make_old(tmp_path, "sessions", "update_ms", old)
        async with hold_lease(store.leases, old):
            assert await delete_old_sessions(server.app_state) == 0
        assert await delete_old_sessions(server.app_state) == 1
        assert rows_with(tmp_path, *texts) == {}
        assert await keys_with(redis_url, prefix, *texts) == []
        shown = (await server.client.get(f"/agents/{agent}/sessions")).json()["data"]
        assert [row["id"] for row in shown] == [new]
        assert SECRET in str(shown)


async def test_old_files_are_deleted(tmp_path: Path) -> None:
    async with start_app(tmp_path, sections={"retention": {"file_days": 1}, "encryption_keys": [KEY]}) as server:
        agent = await server.agent(ECHO)
        ids: list[str] = []
        for name in ("old.txt", "new.txt"):
            sent = await server.client.post(f"/agents/{agent}/upload", files={"file": (name, SECRET.encode())})
            ids.append(sent.json()["data"]["id"])
        paths = [path for path in (tmp_path / "files").rglob("*") if path.is_file()]
        assert all(SECRET.encode() not in path.read_bytes() for path in paths)
        make_old(tmp_path, "files", "create_ms", ids[0])
        assert await delete_old_files(server.app_state) == 1
        assert [path.name for path in (tmp_path / "files").rglob("*") if path.is_file()] == [ids[1]]
        assert set(rows_with(tmp_path, ids[0])) == set()


async def test_runs_go_to_a_session_that_stays_while_others_are_deleted(database_url: str) -> None:
    async with open_store("memory://") as store, open_database(database_url) as one, open_database(database_url) as two:
        sessions, runs = SessionRepository(one, "t"), RunRepository(one, "t")
        await sessions.add(agent())
        for number in range(8):
            origin, fork, kept = [f"{number}{letter}" * 16 for letter in "abc"]
            for id_ in (origin, fork, kept):
                shown = message(id_, "x")
                shown.run_id = f"r{number}"
                await sessions.add(session(id_), shown)
            await runs.add(RunRow(id=f"r{number}", agent_id="a1", version_id="v1", session_id=origin, start_ms=1))
            await store.runs.put(RunRecord(f"r{number}", origin))
            deletions = [
                delete_stored_session(each, store, "t", "a1", id_) for each, id_ in ((one, origin), (two, fork))
            ]
            await asyncio.gather(*deletions)
            run, record = await runs.get(f"r{number}"), await store.runs.get(f"r{number}")
            assert run is not None
            assert record is not None
            assert (run.session_id, record.session) == (kept, kept)
