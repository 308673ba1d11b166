import asyncio
import json
import signal
import stat
from pathlib import Path

import httpx
import pytest

from ragflow_lg.base.errors import DatabaseError, SettingsError
from ragflow_lg.server.cli.serve import report_missing
from ragflow_lg.server.cli.terminal import DEMO
from ragflow_lg.server.settings import load_settings
from tests.fakes.canvas import node
from tests.harness.first_key import read_first_key
from tests.harness.rows import each_row
from tests.server.cli.command import call, end, invoke, one_line, read_lines, save, start
from tests.server.http.app_server import ECHO, canvas

SERVE = ("serve", "--port", "0", "--model", "demo")


def client_of(url: str, key: str) -> httpx.Client:
    return httpx.Client(base_url=f"{url}/api/v1", headers={"Authorization": f"Bearer {key}"}, timeout=60)


@pytest.mark.slow
def test_it_serves_prints_a_key_once_and_ends_cleanly(tmp_path: Path) -> None:
    process = start(*SERVE, RAGFLOW_LG_COMPAT__RAGFLOW="1.0.1")
    url, key_line, responses, last = read_lines(process, 4)
    assert responses == "Responses: those of RAGFlow 1.0 ([compat] ragflow)"
    assert url.startswith("http://127.0.0.1:")
    assert httpx.get(last.removeprefix("OpenAPI document: "), timeout=60).json()["openapi"] == "3.1.0"
    assert stat.S_IMODE((tmp_path / "first-api-key").stat().st_mode) == 0o600
    key = read_first_key(key_line)
    assert key.startswith("ragflow-")
    with client_of(url, key) as client:
        agent = client.post("/agents", json={"title": "Echo", "dsl": ECHO}).json()["data"]
        body = {"agent_id": agent["id"], "query": "hi"}
        assert client.post("/agents/chat/completions", json=body).json()["data"]["data"]["content"] == "You said hi"
        assert end(process) == (0, f"{DEMO}\n")
    listed = invoke("keys", "list").stdout
    assert (listed[:16], "first start" in listed, key in listed) == (key[:16], True, False)


@pytest.mark.slow
async def test_under_load_every_answer_that_started_is_completed() -> None:
    process = start(*SERVE, RAGFLOW_LG_SERVER__LOG_LEVEL="error")
    url, key_line = read_lines(process, 2)
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
        async with asyncio.timeout(60):
            await asyncio.gather(*(ask(client, agent) for _ in range(10)))
    _, errors = await asyncio.to_thread(process.communicate, timeout=60)
    assert (process.returncode, errors) == (0, f"{DEMO}\n")
    assert sum("You said hi" in answer for answer in answers) >= 40


@pytest.mark.slow
def test_metrics_audit_and_log_go_where_the_settings_say(tmp_path: Path) -> None:
    server = {"METRICS_ADDRESS": "127.0.0.1:0", "LOG_FORMAT": "json", "LOG_LEVEL": "info"}
    server["AUDIT"] = str(tmp_path / "audit.jsonl")
    process = start(*SERVE, **{f"RAGFLOW_LG_SERVER__{name}": value for name, value in server.items()})
    url, key_line = read_lines(process, 2)
    assert process.stderr is not None
    line = next(line for line in process.stderr if "metrics at " in line)
    metrics = json.loads(line)["message"].removeprefix("metrics at ")
    with httpx.Client(timeout=60) as client:
        assert client.get(f"{url}/api/v1/agents", headers={"Authorization": "ragflow-forged"}).status_code == 401
        assert 'ragflow_lg_refused_total{reason="key"} 1.0' in client.get(metrics).text
        assert client.get(f"{url}/metrics").status_code == 404
    _, errors = end(process)
    assert "GET /api/v1/agents 401" in " ".join(json.loads(line)["message"] for line in errors.splitlines())
    audit = (tmp_path / "audit.jsonl").read_text()
    assert [json.loads(line)["event"] for line in audit.splitlines()] == ["key.created", "key.refused"]
    assert read_first_key(key_line) not in errors + audit


@pytest.mark.slow
def test_canvas_files_become_agents_and_those_that_cannot_run_are_reported(tmp_path: Path) -> None:
    broken, package = tmp_path / "broken.json", tmp_path / "other" / "package.json"
    broken.write_text(json.dumps(canvas(("begin", "Begin", {}, ["Nowhere:0"])), indent=2))
    package.parent.mkdir()
    package.write_text("{}")
    for file, problem in (
        (broken, f"The canvas '{broken}' has 1 error:\n  "),
        (package.parent, f"There is no canvas in '{package.parent}'."),
    ):
        refused = invoke(*SERVE, file, environment={"RAGFLOW_LG_CHECKPOINTS": "memory://"}).exception
        assert isinstance(refused, SettingsError)
        assert problem in str(refused)
    (tmp_path / "echo.json").write_text(json.dumps(ECHO))
    process = start(*SERVE, "broken.json", "echo.json", "--open")
    url, page, key_line = read_lines(process, 3)
    assert page == f"Page: {url}/page"  # the output is no terminal, so the link has no key
    with client_of(url, read_first_key(key_line)) as client:
        titles = {agent["title"] for agent in client.get("/agents").json()["data"]["canvas"]}
    code, errors = end(process)
    assert (code, titles) == (0, {"echo", "broken"})
    assert "The canvas 'broken.json' has 1 error:\n" in errors


def test_user_errors_are_reported(tmp_path: Path) -> None:
    folder = {"RAGFLOW_LG_SERVER__DATABASE": f"sqlite:///{tmp_path}"}
    assert isinstance(invoke(*SERVE, environment=folder).exception, DatabaseError)
    assert isinstance(invoke("serve", "--host", "no.such.host.invalid").exception, SettingsError)
    sessions = {"RAGFLOW_LG_CHECKPOINTS": "memory://"}
    journal = {"RAGFLOW_LG_SERVER__JOURNAL": "redis://127.0.0.1:1"}
    for words, more in ((["--queue", "redis://127.0.0.1:1"], {}), ([], journal)):
        without_redis = invoke(*SERVE, *words, environment={**sessions, **more})
        advice = "Set `checkpoints` in the settings file, or the environment variable RAGFLOW_LG_CHECKPOINTS"
        assert advice in str(without_redis.exception)
    (tmp_path / "wrong.json").write_text("[]")
    assert "wrong.json' has 1 error:\n  1:1: error document-shape" in str(invoke(*SERVE, "wrong.json").exception)


@each_row("command", ["serve", "worker"])
def test_checkpoint_is_refused_with_the_name_of_the_setting(command: str) -> None:
    refused = invoke(command, "--checkpoint", "memory://")
    assert refused.exit_code == 2
    assert "`checkpoints` of the settings, or in RAGFLOW_LG_CHECKPOINTS" in one_line(refused.stderr)
    assert "--checkpoint" not in invoke(command, "--help").stdout


@pytest.mark.slow
@each_row(("host", "warns"), [("0.0.0.0", True), ("::1", False)])
def test_it_says_who_can_reach_an_address_of_the_network(host: str, *, warns: bool) -> None:
    server = start(*SERVE, "--host", host)
    read_lines(server, 1)
    assert ("Every machine that reaches this address can send requests" in end(server)[1]) == warns


def test_a_model_that_nobody_serves_is_refused_at_the_start() -> None:
    result = call("serve", "--port", "0", "--model", "gpt@Openia")
    assert (result.returncode, "Did you mean 'OpenAI'?" in result.stderr) == (2, True)


@each_row(
    ("words", "advice"),
    [([], "A worker needs a queue"), (["--queue", "redis://127.0.0.1:1"], "set database in the section [server]")],
)
def test_a_worker_needs_a_queue_and_the_database_of_the_servers(words: list[str], advice: str) -> None:
    result = call("worker", *words)
    assert (result.returncode, advice in " ".join(result.stderr.split())) == (2, True)


def test_what_is_missing_is_printed_before_anybody_asks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    retrieval = node("Retrieval", {"dataset_ids": ["plants"], "query": "x"}, ["m"])
    parts = {"r": retrieval, "m": node("LLM", {"llm_id": "x@No"})}
    file = save(tmp_path / "plants.json", parts)
    report_missing([file], load_settings(None), "")
    written = capsys.readouterr().err
    assert written.startswith("plants.json: Something that the canvas needs is missing:\n")
    assert ("'x@No'" in written, "kb create" in written) == (True, True)
    report_missing([file], load_settings(None), "demo")
    assert "'x@No'" not in capsys.readouterr().err
