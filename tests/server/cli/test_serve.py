import asyncio
import json
import os
import signal
import stat
import subprocess
import time
from pathlib import Path

import httpx
import pytest

from ragflow_lg.base.errors import DatabaseError, SettingsError
from tests.harness.first_key import read_first_key
from tests.harness.loaded_python import python_command
from tests.server.cli.command import ROOT, invoke, one_line
from tests.server.http.app_server import ECHO, canvas

pytestmark = pytest.mark.slow


def start(folder: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        python_command("-m", "ragflow_lg", "serve", "--port", "0", "--model", "demo", *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )


def test_it_serves_prints_a_key_once_and_ends_cleanly(tmp_path: Path) -> None:
    process = start(tmp_path)
    assert process.stdout is not None
    url, key_line, last = (process.stdout.readline().strip() for _ in range(3))
    assert url.startswith("http://127.0.0.1:")
    assert httpx.get(last.removeprefix("OpenAPI document: "), timeout=60).json()["openapi"] == "3.1.0"
    assert stat.S_IMODE((tmp_path / "first-api-key").stat().st_mode) == 0o600
    key = read_first_key(key_line)
    assert key.startswith("ragflow-")
    with httpx.Client(base_url=f"{url}/api/v1", headers={"Authorization": f"Bearer {key}"}, timeout=60) as client:
        agent = client.post("/agents", json={"title": "Echo", "dsl": ECHO}).json()["data"]
        body = {"agent_id": agent["id"], "query": "hi"}
        assert client.post("/agents/chat/completions", json=body).json()["data"]["data"]["content"] == "You said hi"
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    listed = invoke(
        "keys", "list", environment={"RAGFLOW_LG_SERVER__DATABASE": f"sqlite:///{tmp_path}/ragflow-lg-server.db"}
    )
    assert listed.stdout.startswith(key[:16])
    assert "first start" in listed.stdout
    assert json.dumps(key) not in listed.stdout


async def test_under_load_every_answer_that_started_is_completed(tmp_path: Path) -> None:
    process = start(tmp_path, RAGFLOW_LG_SERVER__LOG_LEVEL="error")
    assert process.stdout is not None
    url, key_line = (process.stdout.readline().strip() for _ in range(2))
    headers = {"Authorization": read_first_key(key_line)}
    answers: list[str] = []
    is_stopping = asyncio.Event()

    async def ask(client: httpx.AsyncClient, agent: str) -> None:
        body = {"agent_id": agent, "query": "hi", "stream": True}
        while True:
            try:
                answer = await client.post("/agents/chat/completions", json=body)
            except (httpx.ConnectError, httpx.RemoteProtocolError, httpx.ReadError):
                assert is_stopping.is_set()
                return
            if is_stopping.is_set() and not answer.text.startswith("data:"):
                assert answer.json()["code"] == 500, answer.text  # refused, or stopped before it said anything
                return
            assert answer.text.endswith("data:[DONE]\n\n")
            answers.append(answer.text)
            if len(answers) == 40:
                is_stopping.set()
                process.send_signal(signal.SIGTERM)

    async with httpx.AsyncClient(base_url=f"{url}/api/v1", headers=headers, timeout=60) as client:
        agent = (await client.post("/agents", json={"title": "Echo", "dsl": ECHO})).json()["data"]["id"]
        start_time = time.monotonic()
        await asyncio.gather(*(ask(client, agent) for _ in range(10)))
    _, errors = await asyncio.to_thread(process.communicate, timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert time.monotonic() - start_time < 60
    assert sum("You said hi" in answer for answer in answers) >= 40


def test_metrics_audit_and_log_go_where_the_settings_say(tmp_path: Path) -> None:
    process = start(
        tmp_path,
        RAGFLOW_LG_SERVER__METRICS="port",
        RAGFLOW_LG_SERVER__METRICS_PORT="0",
        RAGFLOW_LG_SERVER__LOG_FORMAT="json",
        RAGFLOW_LG_SERVER__LOG_LEVEL="info",
        RAGFLOW_LG_SERVER__AUDIT=str(tmp_path / "audit.jsonl"),
    )
    assert process.stdout is not None
    assert process.stderr is not None
    url, key_line = (process.stdout.readline().strip() for _ in range(2))
    lines: list[str] = []
    while not lines or "metrics at " not in lines[-1]:
        lines.append(process.stderr.readline())
        assert lines[-1], lines
    metrics = json.loads(lines[-1])["message"].removeprefix("metrics at ")
    with httpx.Client(timeout=60) as client:
        assert client.get(f"{url}/api/v1/agents", headers={"Authorization": "ragflow-forged"}).status_code == 401
        assert 'ragflow_lg_refused_total{reason="key"} 1.0' in client.get(metrics).text
        assert client.get(f"{url}/metrics").status_code == 404
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    logged = [json.loads(line) for line in errors.splitlines()]
    assert "GET /api/v1/agents 401" in " ".join(line["message"] for line in logged)
    key = read_first_key(key_line)
    audit = (tmp_path / "audit.jsonl").read_text()
    assert [json.loads(line)["event"] for line in audit.splitlines()] == ["key.created", "key.refused"]
    assert key not in errors + audit


def test_canvas_files_become_agents_and_the_link_to_the_page_stays_out_of_logs(tmp_path: Path) -> None:
    (tmp_path / "echo.json").write_text(json.dumps(ECHO))
    process = start(tmp_path, "echo.json", "--open")
    assert process.stdout is not None
    url, page, key_line, _ = (process.stdout.readline().strip() for _ in range(4))
    assert page == f"Page: {url}/page"  # the output is no terminal
    headers = {"Authorization": f"Bearer {read_first_key(key_line)}"}
    with httpx.Client(base_url=f"{url}/api/v1", headers=headers, timeout=60) as client:
        assert [agent["title"] for agent in client.get("/agents").json()["data"]["canvas"]] == ["echo"]
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_user_errors_are_reported(tmp_path: Path) -> None:
    no_database = {"RAGFLOW_LG_SERVER__DATABASE": f"sqlite:///{tmp_path}"}
    assert isinstance(invoke("serve", "--port", "0", environment=no_database).exception, DatabaseError)
    assert isinstance(invoke("serve", "--host", "no.such.host.invalid").exception, SettingsError)
    sqlite = {"RAGFLOW_LG_SERVER__DATABASE": f"sqlite:///{tmp_path}/server.db", "RAGFLOW_LG_CHECKPOINTS": "memory://"}
    without_redis = invoke("serve", "--port", "0", "--queue", "redis://127.0.0.1:1", environment=sqlite)
    assert "set `checkpoints` in the settings file, or the environment variable RAGFLOW_LG_CHECKPOINTS" in str(
        without_redis.exception
    )
    wrong = tmp_path / "wrong.json"
    wrong.write_text("[]")
    refused = invoke(
        "serve", "--port", "0", wrong, environment={"RAGFLOW_LG_SERVER__DATABASE": f"sqlite:///{tmp_path}/server.db"}
    )
    assert "wrong.json' has 1 error:\n  1:1: error document-shape" in str(refused.exception)


def test_canvases_that_cannot_run_are_reported_and_without_another_the_server_does_not_start(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text(json.dumps(canvas(("begin", "Begin", {}, ["Nowhere:0"])), indent=2))
    database = {"RAGFLOW_LG_SERVER__DATABASE": f"sqlite:///{tmp_path}/server.db"}
    refused = invoke("serve", "--port", "0", broken, environment={**database, "RAGFLOW_LG_CHECKPOINTS": "memory://"})
    assert isinstance(refused.exception, SettingsError)
    assert f"The canvas '{broken}' has 1 error:\n  " in str(refused.exception)
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "package.json").write_text("{}")
    empty = invoke("serve", "--port", "0", folder, environment={**database, "RAGFLOW_LG_CHECKPOINTS": "memory://"})
    assert isinstance(empty.exception, SettingsError)
    assert str(empty.exception) == f"There is no canvas in '{folder}'."
    (tmp_path / "echo.json").write_text(json.dumps(ECHO))
    process = start(tmp_path, "broken.json", "echo.json")
    assert process.stdout is not None
    assert process.stdout.readline().startswith("http://")
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert "The canvas 'broken.json' has 1 error:\n" in errors


@pytest.mark.parametrize("command", ["serve", "worker"])
def test_checkpoint_is_refused_with_the_name_of_the_setting(command: str) -> None:
    refused = invoke(command, "--checkpoint", "memory://")
    assert refused.exit_code == 2
    assert "`checkpoints` of the settings, or in RAGFLOW_LG_CHECKPOINTS" in one_line(refused.stderr)
    assert "--checkpoint" not in invoke(command, "--help").stdout


@pytest.mark.parametrize(("host", "warns"), [("0.0.0.0", True), ("::", True), ("127.0.0.1", False), ("::1", False)])
def test_it_says_who_can_reach_an_address_of_the_network(tmp_path: Path, host: str, *, warns: bool) -> None:
    server = start(tmp_path, "--host", host)
    assert server.stdout is not None
    server.stdout.readline()
    server.terminate()
    said = server.communicate(timeout=60)[1]
    assert ("Every machine that reaches this address can send requests" in said) == warns
