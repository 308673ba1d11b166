import json
import logging
from pathlib import Path

import pytest

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.request_notes import RequestNotes, use_notes
from ragflow_lg.server.database.key_repository import KeyRepository
from ragflow_lg.server.observability.logs import audit, open_audit
from tests.server.http.app_server import ECHO, start_app


def test_events_are_appended_to_a_file_readable_by_its_owner(tmp_path: Path) -> None:
    file = tmp_path / "logs" / "audit.jsonl"
    for number in (1, 2):
        with open_audit(file), use_notes(RequestNotes("r1", "10.0.0.1", "acme", "key-id")):
            audit("agent.deleted", agent=f"a{number}\n" + "x" * 1000)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["agent"][:2] for line in lines] == ["a1", "a2"]
    assert lines[0].pop("time").endswith("Z")
    assert len(lines[0].pop("agent")) == 500
    assert lines[0] == {
        "event": "agent.deleted",
        "tenant": "acme",
        "key": "key-id",
        "address": "10.0.0.1",
        "request": "r1",
    }
    assert file.stat().st_mode & 0o777 == 0o600


def test_without_a_file_events_go_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "ragflow_lg.audit"), open_audit(None):
        audit("key.refused", path="/x")
    assert json.loads(caplog.messages[0]) == {"event": "key.refused", "path": "/x"}


def test_an_unwritable_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="audit"), open_audit(tmp_path):
        pass


async def test_changes_and_refusals_are_recorded(tmp_path: Path) -> None:
    file, other = tmp_path / "audit.jsonl", "0" * 32
    with open_audit(file):
        async with start_app(tmp_path) as server:
            agent_id = await server.agent(ECHO)
            first, second = await server.session(agent_id), await server.session(agent_id)
            native = f"{server.url}/native/v1/agents"
            beta = await KeyRepository(server.app_state.database).create("other", 1, kind="beta")
            page = {"Authorization": f"Bearer {beta}"}
            forged = {"Authorization": "Bearer beta-forged-by-somebody"}
            requests: list[tuple[str, str, dict[str, str]]] = [
                ("POST", f"{native}/{agent_id}/versions", {}),
                ("PUT", f"{native}/{agent_id}/sessions/{first}/version", {}),
                ("DELETE", f"/agents/{agent_id}/sessions/{first}", {}),
                ("DELETE", f"{native}/{agent_id}/sessions/{second}", {}),
                ("GET", f"{native}/{other}/runs", {}),
                ("GET", f"/agents/{other}", {}),
                ("GET", f"/agentbots/{agent_id}/inputs", page),
                ("GET", f"/agents/attachments/{other}/download", page),
                ("GET", f"/agentbots/{agent_id}/inputs", forged),
                ("POST", f"/agents/{agent_id}/webhook", {}),
            ]
            for method, path, headers in requests:
                body = {"version": "published"} if method == "PUT" else {}
                await server.client.request(method, path, headers=headers, json=body)
            (version,) = (
                row["id"]
                for row in (await server.client.get(f"/agents/{agent_id}/versions")).json()["data"]
                if row["release"]
            )
            await server.client.delete(f"{native}/{agent_id}/versions/{version}")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    entries = [(line["event"], line.get("tenant", ""), line.get("session") or line.get("agent", "")) for line in lines]
    assert entries == [
        ("agent.created", "tenant", agent_id),
        ("version.published", "tenant", agent_id),
        ("session.changed", "tenant", first),
        ("session.deleted", "tenant", first),
        ("session.deleted", "tenant", second),
        ("agent.refused", "tenant", other),
        ("agent.refused", "tenant", other),
        ("agent.refused", "other", agent_id),
        ("file.refused", "other", ""),
        ("key.refused", "", ""),
        ("webhook.refused", "", agent_id),
        ("version.deleted", "tenant", agent_id),
    ]
    assert all(line["request"] and line["address"] == "127.0.0.1" for line in lines)
    assert "forged-by-somebody" not in file.read_text()
