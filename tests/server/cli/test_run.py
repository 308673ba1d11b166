import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ragflow_lg.server.cli.command_line import app
from tests.fakes.canvas import node
from tests.fakes.mock_llm import MockLLM, reply
from tests.harness.rows import each_row
from tests.server.cli.command import ROOT, call, frames, invoke, one_line, save, start, write_canvas

FORM = {
    "city": {"name": "City", "type": "line", "optional": False},
    "days": {"name": "Days", "type": "integer", "optional": False},
    "hasty": {"name": "Hasty", "type": "boolean", "optional": True},
    "more": {"name": "More", "type": "object", "optional": True},
}


@pytest.fixture
def greeter() -> Path:
    return save("greeter.json", {"m": node("Message", {"content": ["Turn {sys.conversation_turns}: {sys.query}"]})})


@pytest.fixture
def form() -> Path:
    return write_canvas(
        Path("form.json"),
        ("begin", "Begin", {"mode": "task", "inputs": FORM}, ["m"]),
        ("m", "Message", {"content": ["{begin@city}|{begin@days}|{begin@hasty}|{begin@more.a}"]}, []),
    )


def test_events_are_lines_of_json(greeter: Path) -> None:
    result = invoke("run", greeter, "Hi ü", "--events", "json")
    assert result.exit_code == 0
    written = frames(result)
    names = [f["event"] for f in written]
    assert names[:3] == ["workflow_started", "node_started", "node_finished"]
    assert names[-3:] == ["message_end", "node_finished", "workflow_finished"]
    assert "".join(f["data"]["content"] for f in written if f["event"] == "message") == "Turn 1: Hi ü"
    assert len({f["message_id"] for f in written}) == 1


def test_pretty_output_has_the_answer_and_the_progress(greeter: Path) -> None:
    result = invoke("run", greeter, "-", "--events", "pretty", text="from a pipe\n")
    assert result.stdout == "Turn 1: from a pipe\n"
    assert "▸ begin (Begin)" in result.stderr
    assert "✓" in result.stderr
    assert invoke("run", greeter, "\x1b[2J\x07x", "-e", "pretty").stdout == "Turn 1:  [2J x\n"
    silent = invoke("run", write_canvas(Path("silent.json"), ("begin", "Begin", {}, [])), "Hi", "-e", "pretty")
    assert (silent.exit_code, silent.stdout) == (0, "")
    assert "The turn ended without an answer" in silent.stderr


def test_a_pipe_gets_the_answer(greeter: Path) -> None:
    result = CliRunner().invoke(app, ["run", str(greeter), "Hi"])
    assert (result.stdout, "▸ begin (Begin)" in result.stderr) == ("Turn 1: Hi\n", True)


def test_a_run_without_a_question_says_so_or_asks(greeter: Path, form: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note = 'No question was given, so the canvas plays with an empty one: run FILE "QUESTION", or - to read it.'
    assert note in invoke("run", greeter).stderr
    assert note not in invoke("run", form, "--input", "city=Rome", "--input", "days=1").stderr
    monkeypatch.setattr("ragflow_lg.server.cli.form_fields.is_interactive", lambda: True)
    asked = invoke("run", greeter, "--events", "pretty", text="Where?\n")
    assert (asked.stdout.endswith("Turn 1: Where?\n"), "Question:" in asked.stderr) == (True, True)


def test_the_next_call_continues_a_session(greeter: Path, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/store/sessions.db"
    run = ("run", greeter, "Hi", "-e", "pretty", "--checkpoint", store)
    outputs = [invoke(*run, "--session", name).stdout for name in ("anna", "anna", "bert")]
    assert outputs == ["Turn 1: Hi\n", "Turn 2: Hi\n", "Turn 1: Hi\n"]
    refused = invoke("run", greeter, "Hi", "--checkpoint", "memory://")
    assert (refused.exit_code, "--session" in refused.stderr) == (2, True)
    Path("my.toml").write_text(f'checkpoints = "sqlite:///{tmp_path}/set.db"\n')
    assert invoke("run", greeter, "Hi", "--session", "a", "--settings", "my.toml").exit_code == 0
    assert (tmp_path / "set.db").is_file()


def test_fields_are_parsed_by_their_types(form: Path) -> None:
    fields = ["city=a=b", "days=3", "hasty=yes", 'more={"a": [1]}']
    arguments = [part for field in fields for part in ("--input", field)]
    assert invoke("run", form, *arguments, "-e", "pretty").stdout == "a=b|3|true|[1]\n"


@each_row(
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
    assert (result.returncode, result.stdout, problem in result.stderr) == (2, "", True)
    assert result.stderr.startswith("ragflow-lg: "), "it is not an error in the usage of an option"


def test_a_failed_run_names_the_node() -> None:
    broken = save("broken.json", {"ListOperations:First": node("ListOperations", {"query": "sys.query"})})
    result = invoke("run", broken, "text")
    assert (result.exit_code, "ListOperations:First: " in result.stderr) == (1, True)
    pretty = invoke("run", broken, "text", "-e", "pretty")
    assert (pretty.exit_code, "✗ " in pretty.stderr) == (1, True)
    assert "failed in ListOperations:First" in pretty.stderr


def test_a_file_that_is_no_canvas_is_named() -> None:
    Path("c.toml").write_text("a = 1")
    for words in (("run",), ("canvas", "draw")):
        refused = call(*words, "c.toml")
        assert (refused.returncode, refused.stdout) == (2, "")
        assert refused.stderr.startswith("The canvas 'c.toml' has 1 error:\n  1:1: error json-invalid")


def test_a_trace_adds_records_of_agents() -> None:
    agent: dict[str, Any] = {"prompts": "{sys.query}", "tools": [{"component_name": "Wikipedia", "name": "Wiki"}]}
    agent["tools"][0]["params"] = {}
    guide = save("guide.json", {"Agent:Guide": node("Agent", agent, ["m"]), "m": node("Message", {"content": ["x"]})})
    plain = frames(invoke("run", guide, "Hello", "-m", "demo"))
    traced = frames(invoke("run", guide, "Hello", "-m", "demo", "--trace"))
    records = [frame for frame in traced if frame["event"] == "agent_record"]
    assert [frame["event"] for frame in traced if frame not in records] == [frame["event"] for frame in plain]
    kinds = ["iteration_started", "iteration_finished"]
    called = [*kinds, "tool_started", "tool_finished", *kinds, "agent_finished"]
    assert [r["data"]["kind"] for r in records] == called
    assert list(records[0]) == list(plain[0])
    assert {r["data"]["component_id"] for r in records} == {"Agent:Guide"}


async def test_a_key_in_the_environment_is_enough_for_openai() -> None:
    prompts = [{"role": "user", "content": "{sys.query}"}]
    for llm_id in ("gpt-4.1@OpenAI", ""):
        llm = node("LLM", {"llm_id": llm_id, "prompts": prompts}, ["m"])
        canvas = save("c.json", {"llm": llm, "m": node("Message", {"content": ["{llm@content}"]})})
        async with MockLLM([reply("a real answer")]) as server:
            environment = {"OPENAI_API_KEY": "k-1", "OPENAI_BASE_URL": server.base_url}
            process = start("run", canvas, "Hi", "--events", "pretty", **environment)
            answer, _ = await asyncio.to_thread(process.communicate)
        assert (process.returncode, answer.strip()) == (0, "a real answer")
        (exchange,) = server.requests
        assert exchange.request is not None
        assert exchange.request.model == (llm_id or "gpt-4.1-mini@OpenAI").partition("@")[0]
        assert exchange.headers["authorization"].startswith("Bearer")


def test_a_similar_file_is_suggested(greeter: Path) -> None:
    Path("report.md").touch()
    for words in (
        ["run", "greter.json", "Hi"],
        ["run", greeter, "Hi", "--settings", "reprt.md"],
        ["mock-llm", "reprt.md"],
        ["kb", "add", "reprt.md"],
        ["run", greeter, "Hi", "--file", "reprt.md"],
    ):
        result = invoke(*words)
        expected = "greeter.json" if "greter.json" in words else "report.md"
        assert f"Did you mean '{expected}'?" in str(result.exception) + one_line(result.stderr), words


def test_the_settings_and_the_canvas_choose_ragflows_behaviours() -> None:
    def answer(**environment: str) -> str:
        return frames(invoke("run", path, "q", environment=environment))[-1]["data"]["outputs"]["content"]

    template = '{% if {sys.conversation_turns} == "1" %}text{% else %}number{% endif %}'
    path = save("jinja.json", {"m": node("Message", {"content": [template]})})
    assert (answer(), answer(RAGFLOW_LG_COMPAT__ALL="true")) == ("number", "text")
    assert "differs-jinja-values" in invoke("check", path).stdout
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), "compat": "ragflow"}), "utf-8")
    assert answer() == "text"
    assert "differs" not in invoke("check", path).stdout


def test_a_run_whose_session_cannot_be_leased_reports_it_once() -> None:
    run = ("run", ROOT / "tests" / "fixtures" / "crash" / "chain.json", "hi", "--session", "anna")
    assert call(*run, "--checkpoint", "sqlite:///s.db").returncode == 0
    with sqlite3.connect("s.db") as connection:
        refuse = "BEGIN SELECT RAISE(ABORT, 'the disk is full'); END"
        connection.execute(f"CREATE TRIGGER other BEFORE UPDATE ON leases {refuse}")
    completed = call(*run, "--checkpoint", "sqlite:///s.db")
    assert completed.returncode == 2
    assert completed.stderr == "ragflow-lg: The session cannot be leased: the disk is full\n"
