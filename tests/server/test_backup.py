"""A server is restored from the backups that docs/operations.md names: sessions, database, files, and the keys."""

import asyncio
import base64
import shutil
import sqlite3
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from tests.checkpoints.sql.test_backup import back_up
from tests.fakes.redis_process import RDB, redis_process
from tests.harness.database_servers import run_beside
from tests.server.conftest import create_database
from tests.server.http.app_server import FORM, AppServer, start_app

pytestmark = pytest.mark.slow

KEY = {"id": "k", "key": base64.b64encode(b"k" * 32).decode()}


def settings_of(folder: Path, checkpoints: str = "", database: str = "") -> dict[str, Any]:
    return {
        "checkpoints": checkpoints or f"sqlite:///{folder}/sessions.db",
        "sections": {"encryption_keys": [KEY]},
        "database": SecretStr(database or f"sqlite:///{folder}/server.db"),
        "files": folder / "files",
    }


async def upload(server: AppServer, agent: str) -> str:
    sent = await server.client.post(f"/agents/{agent}/upload", files={"file": ("a.txt", b"some notes")})
    return sent.json()["data"]["id"]


@dataclass
class Backed:
    """What the server had when it was backed up."""

    key: str
    agent: str
    session: str
    file: str


async def play_and_back_up(
    live: Path, restored: Path, settings: dict[str, Any], back_up_all: Callable[[], Awaitable[None]]
) -> Backed:
    """Back a server up while it runs, between two turns of which the first one waits for an answer."""
    async with start_app(live, **settings) as server:
        agent = await server.agent(FORM)
        asked = (await server.ask(agent, "before the backup"))["data"]
        file = await upload(server, agent)
        await back_up_all()
        shutil.copytree(live / "files", restored / "files")
        await server.ask(agent, "after the backup")
        return Backed(server.key, agent, asked["session_id"], file)


async def check_restored(restored: Path, settings: dict[str, Any], backed: Backed) -> None:
    """Check that a server goes on where it was when it was backed up."""
    async with start_app(restored, **settings) as server:
        server.client.headers["Authorization"] = f"Bearer {backed.key}"  # keys are part of the database
        sessions = (await server.client.get(f"/agents/{backed.agent}/sessions")).json()["data"]
        assert [session["id"] for session in sessions] == [backed.session]
        assert "before the backup" in str(sessions)
        fields = {"size": {"value": "7"}}
        answered = await server.ask(backed.agent, "", session_id=backed.session, inputs=fields)
        assert answered["code"] == 0, answered
        assert "7" in answered["data"]["data"]["content"]
        listed = (await server.client.get(f"{server.url}/native/v1/files")).json()["files"]
        assert [each["id"] for each in listed] == [backed.file]
        content = await server.client.get(f"/agents/attachments/{backed.file}/download")
        assert (content.status_code, content.content) == (200, b"some notes")


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """The folders of the server that is backed up and of the restored one."""
    live, restored = tmp_path / "live", tmp_path / "restored"
    live.mkdir()
    restored.mkdir()
    return live, restored


async def test_a_server_is_restored_with_a_waiting_form_and_its_files(folders: tuple[Path, Path]) -> None:
    live, restored = folders

    async def back_up_all() -> None:
        back_up(live / "sessions.db", restored / "sessions.db")
        back_up(live / "server.db", restored / "server.db")

    backed = await play_and_back_up(live, restored, settings_of(live), back_up_all)
    shutil.rmtree(live)
    with sqlite3.connect(restored / "sessions.db") as copy:
        copy.execute("DELETE FROM leases")  # they end by themselves when their process has ended
    await check_restored(restored, settings_of(restored), backed)


@pytest.mark.parametrize("is_dumped_by_client", [True, False])
async def test_a_server_is_restored_from_a_dump_of_postgresql_and_a_snapshot_of_redis(
    folders: tuple[Path, Path], tmp_path: Path, is_dumped_by_client: bool
) -> None:
    live, restored = folders
    database, dump = await create_database("postgresql"), tmp_path / "server.dump"
    (tmp_path / "new").mkdir()

    with redis_process(tmp_path / "redis", *RDB) as redis:

        async def back_up_all() -> None:
            if is_dumped_by_client:
                await asyncio.to_thread(redis.dump, tmp_path / "new" / "dump.rdb")
            else:
                await asyncio.to_thread(redis.save_in_background)
                shutil.copy(tmp_path / "redis" / "dump.rdb", tmp_path / "new")
            options = ("--format=custom", "--file", dump, "--dbname", database)
            await asyncio.to_thread(run_beside, "postgresql", "pg_dump", *options)

        backed = await play_and_back_up(live, restored, settings_of(live, redis.url, database), back_up_all)
    new_database = await create_database("postgresql")
    await asyncio.to_thread(run_beside, "postgresql", "pg_restore", "--dbname", new_database, dump)
    with redis_process(tmp_path / "new", *RDB) as redis:
        await check_restored(restored, settings_of(restored, redis.url, new_database), backed)
