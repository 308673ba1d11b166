"""A server is restored from the backups that docs/operations.md names: sessions, database, files, and the keys."""

import base64
import shutil
import sqlite3
from pathlib import Path

from pydantic import SecretStr

from tests.checkpoints.sqlite.test_backup import back_up
from tests.server.http.app_server import FORM, AppServer, start_app

KEY = {"id": "k", "key": base64.b64encode(b"k" * 32).decode()}


def settings_of(folder: Path) -> dict[str, object]:
    return {
        "checkpoints": f"sqlite:///{folder}/sessions.db",
        "sections": {"encryption_keys": [KEY]},
        "database": SecretStr(f"sqlite:///{folder}/server.db"),
        "files": folder / "files",
    }


async def upload(server: AppServer, agent: str) -> str:
    sent = await server.client.post(f"/agents/{agent}/upload", files={"file": ("a.txt", b"some notes")})
    return sent.json()["data"]["id"]


async def test_a_server_is_restored_with_a_waiting_form_and_its_files(tmp_path: Path) -> None:
    live, restored = tmp_path / "live", tmp_path / "restored"
    for folder in (live, restored):
        folder.mkdir()
    async with start_app(live, **settings_of(live)) as server:  # pyright: ignore[reportArgumentType] - options by name
        agent = await server.agent(FORM)
        asked = (await server.ask(agent, "before the backup"))["data"]
        file = await upload(server, agent)
        back_up(live / "sessions.db", restored / "sessions.db")  # while the server runs
        back_up(live / "server.db", restored / "server.db")
        shutil.copytree(live / "files", restored / "files")
        await server.ask(agent, "after the backup")
        key = server.key
    shutil.rmtree(live)
    with sqlite3.connect(restored / "sessions.db") as copy:
        copy.execute("DELETE FROM leases")  # they end by themselves when their process has ended
    async with start_app(restored, **settings_of(restored)) as server:  # pyright: ignore[reportArgumentType]
        server.client.headers["Authorization"] = f"Bearer {key}"  # keys are part of the database
        sessions = (await server.client.get(f"/agents/{agent}/sessions")).json()["data"]
        assert [session["id"] for session in sessions] == [asked["session_id"]]
        assert "before the backup" in str(sessions)
        fields = {"size": {"value": "7"}}
        answered = await server.ask(agent, "", session_id=asked["session_id"], inputs=fields)
        assert answered["code"] == 0, answered
        assert "7" in answered["data"]["data"]["content"]
        listed = (await server.client.get(f"{server.url}/native/v1/files")).json()["files"]
        assert [each["id"] for each in listed] == [file]
        content = await server.client.get(f"/agents/attachments/{file}/download")
        assert (content.status_code, content.content) == (200, b"some notes")
