import asyncio
import json
import os
import sqlite3
import subprocess
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.base.errors import CheckpointError, CompileError, SettingsError
from tests.fakes.mock_llm import MockLLM, reply
from tests.harness.loaded_python import python_command
from tests.server.cli.command import ROOT, SUPPORT, call, frames, invoke, one_line, write_canvas

FORM = {
    "city": {"name": "City", "type": "line", "optional": False},
    "days": {"name": "Days", "type": "integer", "optional": False},
    "hasty": {"name": "Hasty", "type": "boolean", "optional": True},
    "more": {"name": "More", "type": "object", "optional": True},
}


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep settings and session files of this machine out of the tests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def greeter(tmp_path: Path) -> Path:
    return write_canvas(
        tmp_path / "greeter.json",
        ("begin", "Begin", {}, ["Message:Hello"]),
        ("Message:Hello", "Message", {"content": ["Turn {sys.conversation_turns}: {sys.query}"]}, []),
    )


@pytest.fixture
def form(tmp_path: Path) -> Path:
    outputs = "{begin@city}|{begin@days}|{begin@hasty}|{begin@more.a}"
    return write_canvas(
        tmp_path / "form.json",
        ("begin", "Begin", {"mode": "task", "inputs": FORM}, ["Message:Echo"]),
        ("Message:Echo", "Message", {"content": [outputs]}, []),
    )


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    return write_canvas(
        tmp_path / "broken.json",
        ("begin", "Begin", {}, ["ListOperations:First"]),
        ("ListOperations:First", "ListOperations", {"query": "sys.query"}, []),
    )


def test_events_are_lines_of_json_without_a_terminal(greeter: Path) -> None:
    result = invoke("run", greeter, "Hi ü")
    assert result.exit_code == 0
    written = frames(result)
    names = [f["event"] for f in written]
    assert names[:3] == ["workflow_started", "node_started", "node_finished"]
    assert names[-3:] == ["message_end", "node_finished", "workflow_finished"]
    assert "".join(f["data"]["content"] for f in written if f["event"] == "message") == "Turn 1: Hi ü"
    assert len({f["message_id"] for f in written}) == 1


def test_pretty_output_has_the_answer_and_the_progress(greeter: Path) -> None:
    result = invoke("run", greeter, "Hi", "--events", "pretty")
    assert result.stdout == "Turn 1: Hi\n"
    assert "▸ begin (Begin)" in result.stderr
    assert "✓" in result.stderr


def test_a_query_from_standard_input(greeter: Path) -> None:
    assert invoke("run", greeter, "-", "-e", "pretty", text="from a pipe\n").stdout == "Turn 1: from a pipe\n"


def test_files_are_attached(tmp_path: Path) -> None:
    shows = write_canvas(
        tmp_path / "files.json",
        ("begin", "Begin", {}, ["Message:Echo"]),
        ("Message:Echo", "Message", {"content": ["{sys.files.0} {sys.query}"]}, []),
    )
    (tmp_path / "a.txt").write_text("inside")
    assert invoke("run", shows, "Hi", "-e", "pretty", "--file", tmp_path / "a.txt").stdout == "inside Hi\n"
    refused = invoke("run", shows, "Hi", "--file", tmp_path / "b.txt")
    assert (refused.exit_code, "--file" in refused.stderr) == (2, True)


def test_a_turn_without_an_answer_is_reported(tmp_path: Path) -> None:
    silent = write_canvas(tmp_path / "silent.json", ("begin", "Begin", {}, []))
    outputs = invoke("run", silent, "Hi", "-e", "pretty")
    assert (outputs.exit_code, outputs.stdout) == (0, "")
    assert "The turn ended without an answer" in outputs.stderr


def test_nothing_controls_the_terminal(greeter: Path) -> None:
    result = invoke("run", greeter, "\x1b[2J\x07x", "-e", "pretty")
    assert "\x1b" not in result.stdout
    assert result.stdout == "Turn 1:  [2J x\n"


def test_the_next_call_continues_a_session(greeter: Path, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/store/sessions.db"
    outputs = [
        invoke("run", greeter, "Hi", "-e", "pretty", "--session", name, "--checkpoint", store).stdout
        for name in ("anna", "anna", "bert")
    ]
    assert outputs == ["Turn 1: Hi\n", "Turn 2: Hi\n", "Turn 1: Hi\n"]


def test_the_settings_name_the_store(greeter: Path, tmp_path: Path) -> None:
    settings = tmp_path / "my.toml"
    settings.write_text(f'checkpoints = "sqlite:///{tmp_path}/set.db"\n')
    assert invoke("run", greeter, "Hi", "--session", "a", "--settings", settings).exit_code == 0
    assert (tmp_path / "set.db").is_file()


def test_fields_are_parsed_by_their_types(form: Path) -> None:
    fields = ["city=a=b", "days=3", "hasty=yes", 'more={"a": [1]}']
    arguments = [part for field in fields for part in ("--input", field)]
    assert invoke("run", form, *arguments, "-e", "pretty").stdout == "a=b|3|true|[1]\n"


@pytest.mark.parametrize(
    ("field", "problem"),
    [
        ("days=soon", "should be a whole number"),
        ("hasty=perhaps", "true or false"),
        ("more={", "JSON object"),
        ("city", "NAME=VALUE"),
    ],
)
def test_an_invalid_field_is_refused(form: Path, field: str, problem: str) -> None:
    result = call("run", form, "--input", field)
    assert result.returncode == 2
    assert problem in result.stderr
    assert result.stderr.startswith("ragflow-lg: "), "it is not an error in the usage of an option"
    assert result.stdout == ""


def test_a_failed_run_names_the_node(broken: Path) -> None:
    result = invoke("run", broken, "text")
    assert result.exit_code == 1
    assert "ListOperations:First: " in result.stderr
    pretty = invoke("run", broken, "text", "-e", "pretty")
    assert pretty.exit_code == 1
    assert "✗ " in pretty.stderr
    assert "failed in ListOperations:First" in pretty.stderr


def test_a_model_without_settings_is_explained() -> None:
    result = invoke("run", SUPPORT, "My order", "--model", "big@Nowhere")
    assert result.exit_code in (0, 1)
    assert "[providers.Nowhere]" in result.stdout + result.stderr


def test_every_model_can_be_replaced_by_the_demo() -> None:
    assert invoke("run", SUPPORT, "My order", "--model", "demo").exit_code == 0


def test_a_canvas_that_cannot_run_raises_an_error(tmp_path: Path, greeter: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text('{"components": {}}')
    assert isinstance(invoke("run", bad).exception, CompileError)
    assert isinstance(invoke("run", tmp_path / "none.json").exception, SettingsError)
    assert isinstance(invoke("run", greeter, "-s", "a", "--checkpoint", "ftp://x").exception, CheckpointError)
    assert isinstance(invoke("run", greeter, "--settings", tmp_path / "none.toml").exception, SettingsError)


def test_a_file_that_is_no_canvas_is_named(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("a = 1")
    for words in (("run",), ("canvas", "draw")):
        refused = call(*words, tmp_path / "c.toml")
        assert refused.returncode == 2
        assert refused.stderr.startswith(f"The canvas '{tmp_path}/c.toml' has 1 error:\n  1:1: error json-invalid")


def test_a_store_without_a_session_is_refused(greeter: Path) -> None:
    result = invoke("run", greeter, "Hi", "--checkpoint", "memory://")
    assert result.exit_code == 2
    assert "--session" in result.stderr


@pytest.fixture
def guide(tmp_path: Path) -> Path:
    tools: list[dict[str, Any]] = [{"component_name": "Wikipedia", "name": "Wiki", "params": {}}]
    return write_canvas(
        tmp_path / "guide.json",
        ("begin", "Begin", {}, ["Agent:Guide"]),
        ("Agent:Guide", "Agent", {"prompts": "{sys.query}", "tools": tools}, ["Message:Say"]),
        ("Message:Say", "Message", {"content": ["{Agent:Guide@content}"]}, []),
    )


def test_a_trace_adds_records_of_agents(guide: Path) -> None:
    plain = frames(invoke("run", guide, "Hello", "-m", "demo"))
    traced = frames(invoke("run", guide, "Hello", "-m", "demo", "--trace"))
    records = [frame for frame in traced if frame["event"] == "agent_record"]
    assert [frame["event"] for frame in traced if frame not in records] == [frame["event"] for frame in plain]
    assert [r["data"]["kind"] for r in records] == ["iteration_started", "iteration_finished", "agent_finished"]
    assert list(records[0]) == list(plain[0])
    assert {r["data"]["component_id"] for r in records} == {"Agent:Guide"}


def test_pretty_output_has_the_totals_of_agents(guide: Path) -> None:
    result = invoke("run", guide, "Hello", "-m", "demo", "--events", "pretty")
    assert result.stderr.splitlines()[-1].startswith("1 agent, 1 round, 0 calls, ")
    assert "· round 1 (demo)" in invoke("run", guide, "Hello", "-m", "demo", "-e", "pretty", "--trace").stderr


def test_an_unknown_exporter_is_refused(guide: Path) -> None:
    wrong = {"RAGFLOW_LG_OTEL__ENABLED": "1", "RAGFLOW_LG_OTEL__EXPORTER": "smoke"}
    result = invoke("run", guide, "Hello", "-m", "demo", environment=wrong)
    assert isinstance(result.exception, SettingsError)


@pytest.mark.parametrize("llm_id", ["gpt-4.1@OpenAI", ""])
async def test_a_key_in_the_environment_is_enough_for_openai(tmp_path: Path, llm_id: str) -> None:
    canvas = write_canvas(
        tmp_path / "c.json",
        ("begin", "Begin", {}, ["LLM:A"]),
        ("LLM:A", "LLM", {"llm_id": llm_id, "prompts": [{"role": "user", "content": "{sys.query}"}]}, ["Message:M"]),
        ("Message:M", "Message", {"content": ["{LLM:A@content}"]}, []),
    )
    async with MockLLM([reply("a real answer")]) as server:
        environment = {**os.environ, "OPENAI_API_KEY": "k-1", "OPENAI_BASE_URL": server.base_url}
        command = python_command("-m", "ragflow_lg", "run", canvas, "Hi", "--events", "pretty")
        process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=PIPE)
        answer, _ = await process.communicate()
    assert (process.returncode, answer.strip()) == (0, b"a real answer")
    (exchange,) = server.requests
    assert exchange.request is not None
    assert exchange.request.model == (llm_id or "gpt-4.1-mini@OpenAI").partition("@")[0]
    assert exchange.headers["authorization"].startswith("Bearer")


@pytest.mark.parametrize("url", ["postgres://x", "sqlite://x.db"])
def test_an_invalid_store_is_reported_before_a_missing_session(greeter: Path, url: str) -> None:
    result = invoke("run", greeter, "Hi", "--checkpoint", url)
    assert isinstance(result.exception, CheckpointError)
    assert f"Invalid session store URL '{url}'" in str(result.exception)


def test_a_similar_file_is_suggested(greeter: Path, tmp_path: Path) -> None:
    result = invoke("run", "greter.json", "Hi")
    assert "no such file or directory. Did you mean 'greeter.json'?" in str(result.exception)
    (tmp_path / "report.md").touch()
    attached = invoke("run", greeter, "Hi", "--file", "reprt.md")
    assert "Did you mean 'report.md'?" in one_line(attached.stderr)
    settings = invoke("run", greeter, "Hi", "--settings", "reprt.md")
    assert "named by --settings does not exist. Did you mean 'report.md'?" in str(settings.exception)
    rules = invoke("mock-llm", "reprt.md")
    assert "Did you mean 'report.md'?" in str(rules.exception)
    files = invoke("kb", "add", "reprt.md")
    assert "Did you mean 'report.md'?" in str(files.exception)


def test_a_missing_dataset_is_reported_with_the_command_that_creates_it(tmp_path: Path) -> None:
    canvas = write_canvas(
        tmp_path / "r.json",
        ("begin", "Begin", {}, ["Retrieval:R"]),
        ("Retrieval:R", "Retrieval", {"dataset_ids": ["65cb"], "query": "{sys.query}"}, []),
    )
    command = python_command("-m", "ragflow_lg", "run", canvas, "Hi")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "ragflow-lg kb create NAME --id 65cb" in done.stderr
    assert "set [knowledge] url" in done.stderr


def test_the_settings_and_the_canvas_choose_ragflows_behaviours(tmp_path: Path) -> None:
    template = '{% if {sys.conversation_turns} == "1" %}text{% else %}number{% endif %}'
    message: dict[str, Any] = {"content": [template]}
    path = write_canvas(tmp_path / "jinja.json", ("begin", "Begin", {}, ["m"]), ("m", "Message", message, []))
    for environment, answer in (({}, "number"), ({"RAGFLOW_LG_COMPAT__RAGFLOW": "true"}, "text")):
        assert frames(invoke("run", path, "q", environment=environment))[-1]["data"]["outputs"]["content"] == answer
    checked = invoke("check", path)
    assert "differs-jinja-values" in checked.stdout
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), "compat": "ragflow"}), "utf-8")
    assert frames(invoke("run", path, "q"))[-1]["data"]["outputs"]["content"] == "text"
    assert "differs" not in invoke("check", path).stdout


def test_a_run_whose_session_cannot_be_leased_reports_it_once(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    store = ("--session", "anna", "--checkpoint", f"sqlite:///{path}")
    assert call("run", ROOT / "tests" / "fixtures" / "crash" / "chain.json", "hi", *store).returncode == 0
    with sqlite3.connect(path) as connection:
        refuse = "BEGIN SELECT RAISE(ABORT, 'the disk is full'); END"
        connection.execute(f"CREATE TRIGGER other BEFORE UPDATE ON leases {refuse}")
    completed = call("run", ROOT / "tests" / "fixtures" / "crash" / "chain.json", "hi", *store)
    assert completed.returncode == 2
    assert completed.stderr == "ragflow-lg: The session cannot be leased: the disk is full\n"
