import json
from typing import Any

import pytest

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.integrations.migration.folder import (
    Manifest,
    PulledAgent,
    PulledDataset,
    PulledSession,
    PulledVersion,
    read_manifest,
    write_manifest,
)
from tests.harness.rows import each_row

HASH = "0" * 64


def test_a_manifest_is_read_as_it_was_written() -> None:
    agent = PulledAgent("agents/a.json", "A", HASH, 7)
    agent.versions["v1"] = PulledVersion("versions/a/v1.json", "first", HASH, 8)
    agent.sessions["s1"] = PulledSession("sessions/a/s1.json", HASH, 9)
    manifest = Manifest(
        url="https://r.example", key_env="KEY", agents={"a1": agent}, datasets={"d1": PulledDataset("d")}
    )
    content = write_manifest(manifest)
    assert read_manifest(content) == manifest
    assert write_manifest(read_manifest(content)) == content


def agent(**fields: Any) -> dict[str, Any]:
    return {"agents": {"a1": {"file": "agents/a.json", "title": "A", "hash": HASH, **fields}}}


@each_row(
    "fields",
    [
        agent(file="../../etc/passwd"),
        agent(file="/etc/passwd"),
        agent(file="agents/../../x.json"),
        agent(file="agents\\x.json"),
        agent(file="agents/x.json\n"),
        agent(hash="abc"),
        agent(title="x" * 300),
        agent(update_ms=2**70),
        agent(surprise=1),
        agent(sessions={"../x": {"file": "sessions/a/x.json", "hash": HASH}}),
        agent(sessions={"x": {"file": "sessions/a/../../x.json", "hash": HASH}}),
        agent(versions={"x": {"file": "versions/a/x.txt", "title": "", "hash": HASH}}),
        {"agents": {"a/b": agent()["agents"]["a1"]}},
        {"agents": {"a1": agent()["agents"]["a1"], "a2": agent()["agents"]["a1"]}},
        {"agents": []},
        {"key_env": "A B"},
        {"format": "something else"},
        {"version": 2},
        {"version": "1"},
    ],
)
def test_a_damaged_manifest_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=r"ragflow\.json"):
        read_manifest(json.dumps({"format": "ragflow-lg pull", "version": 1, **fields}).encode())


@each_row("content", [b"", b"{", b"[" * 100_000, b"\xff\xfe", b"7", b" " * (33 * 1024 * 1024)])
def test_what_is_no_manifest_is_refused(content: bytes) -> None:
    with pytest.raises(SettingsError, match=r"ragflow\.json"):
        read_manifest(content)
