from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx

from ragflow_lg.errors import DatabaseError, SettingsError
from tests.server.cli.command import ROOT, invoke
from tests.server.http.running import ECHO


def start(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "server", "serve", "--port", "0", "--model", "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def test_it_serves_prints_a_key_once_and_ends_well(tmp_path: Path) -> None:
    process = start(tmp_path)
    assert process.stdout is not None
    url, told = (process.stdout.readline().strip() for _ in range(2))
    assert url.startswith("http://127.0.0.1:")
    key = told.removeprefix("API key, shown this once: ")
    with httpx.Client(base_url=f"{url}/api/v1", headers={"Authorization": f"Bearer {key}"}, timeout=20) as client:
        agent = client.post("/agents", json={"title": "Echo", "dsl": ECHO}).json()["data"]
        body = {"agent_id": agent["id"], "query": "hi"}
        assert client.post("/agents/chat/completions", json=body).json()["data"]["data"]["content"] == "You said hi"
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")
    assert time.monotonic() - began < 10
    listed = invoke(
        "keys", "list", environment={"RAGFLOW_LG_SERVER__DATABASE": f"sqlite:///{tmp_path}/ragflow-lg-server.db"}
    )
    assert listed.stdout.startswith(key[:16])
    assert "first start" in listed.stdout
    assert json.dumps(key) not in listed.stdout


def test_mistakes_are_told(tmp_path: Path) -> None:
    no_database = {"RAGFLOW_LG_SERVER__DATABASE": f"sqlite:///{tmp_path}"}
    assert isinstance(invoke("serve", "--port", "0", environment=no_database).exception, DatabaseError)
    assert isinstance(invoke("serve", "--host", "no.such.host.invalid").exception, SettingsError)
