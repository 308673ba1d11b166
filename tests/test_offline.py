"""The command with the real client against ``mock-llm`` in a process of its own; and replayed with the server gone."""

import json
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from tests.harness.loaded_python import python_command
from tests.server.cli.command import ROOT, frames, invoke, write_canvas

KEY, CANVAS_KEY = "settings-key-0123456789", "canvas-key-0123456789"
HELPER = {
    "component_name": "Agent",
    "name": "Helper",
    "params": {"llm_id": "m@Mock", "sys_prompt": "You are a helper."},
}
TOOL_RULES = """
[[rules]]
name = "the helper, which is a tool"
when.system = "You are a helper."
replies = [{ text = "helped ${user}" }]

[[rules]]
name = "two calls side by side"
when.last_role = "user"
when.tools = "Helper"
[[rules.replies]]
calls = [
    { name = "Helper_0", arguments = { user_prompt = "first ${user}" } },
    { name = "Helper_0", arguments = { user_prompt = "second ${user}" } },
]
CUTS

[[rules]]
when.last_role = "tool"
replies = [{ reasoning = "hm", text = "Both are done: ${last}", usage = { prompt_tokens = 7, completion_tokens = 3 } }]
"""


@contextmanager
def mock_llm(folder: Path, rules: str) -> Generator[str]:
    """Run the server; give its URL."""
    file = folder / "rules.toml"
    file.write_text(rules, encoding="utf-8")
    command = python_command("-m", "ragflow_lg", "mock-llm", file)
    with (folder / "requests.jsonl").open("a") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=ROOT)
    assert process.stdout is not None
    try:
        url = process.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:")
        yield url
    finally:
        process.terminate()
        process.wait(timeout=10)
        process.stdout.close()


def requests(folder: Path) -> list[dict[str, Any]]:
    """Return what the server has logged."""
    return [json.loads(line) for line in (folder / "requests.jsonl").read_text("utf-8").splitlines()]


def settings_file(folder: Path, url: str) -> Path:
    """Write settings with a provider ``Mock`` at a URL."""
    provider = [f'base_url = "{url}"', f'api_key = "{KEY}"']
    path = folder / "settings.toml"
    path.write_text("\n".join(["[http]", 'allow = ["127.0.0.1"]', "[providers.Mock]", *provider]), encoding="utf-8")
    return path


def agent_canvas(folder: Path, url: str = "") -> Path:
    """Write a canvas with an agent that has a helper; with a URL its models are fetched before."""
    agent = {"llm_id": "m@Mock", "sys_prompt": "You lead.", "prompts": "{sys.query}", "tools": [HELPER]}
    fetch = {"url": f"{url}/models", "method": "get", "headers": json.dumps({"Authorization": f"Bearer {CANVAS_KEY}"})}
    shown = "{Agent:Lead@content}" + (" {Invoke:Models@result}" if url else "")
    nodes: list[tuple[str, str, dict[str, Any], list[str]]] = [
        ("begin", "Begin", {}, ["Invoke:Models" if url else "Agent:Lead"]),
        *([("Invoke:Models", "Invoke", fetch, ["Agent:Lead"])] if url else []),
        ("Agent:Lead", "Agent", agent, ["Message:Out"]),
        ("Message:Out", "Message", {"content": [shown]}, []),
    ]
    return write_canvas(folder / "canvas.json", *nodes)


def llm_canvas(folder: Path) -> Path:
    """Write a canvas with one model."""
    asked = {"llm_id": "m@Mock", "prompts": [{"role": "user", "content": "{sys.query}"}]}
    return write_canvas(
        folder / "llm.json",
        ("begin", "Begin", {}, ["LLM:A"]),
        ("LLM:A", "LLM", asked, ["Message:Out"]),
        ("Message:Out", "Message", {"content": ["{LLM:A@content}"]}, []),
    )


def answer(events: list[dict[str, Any]]) -> str:
    """Return what was said, without thoughts."""
    said, is_thinking = "", False
    for event in events:
        if event["event"] == "message":
            data = event["data"]
            is_thinking = (is_thinking or data.get("start_to_think", False)) and not data.get("end_to_think", False)
            said += "" if is_thinking else data["content"]
    return said


def steady(events: list[dict[str, Any]]) -> list[Any]:
    """Return events without what differs from run to run: times."""

    def still(value: Any) -> Any:
        if isinstance(value, dict):
            fields = cast("dict[str, Any]", value)
            return {k: still(v) for k, v in fields.items() if not k.strip("_").endswith(("created_at", "_time"))}
        return value

    return [(event["event"], still(event["data"])) for event in events]


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep settings and session files of this machine out of the tests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def test_an_agent_calls_its_tools_in_fragments(tmp_path: Path) -> None:
    with mock_llm(tmp_path, TOOL_RULES.replace("CUTS", "cut_names = [1]\ncut_arguments = [2, 9]")) as url:
        settings = settings_file(tmp_path, url)
        result = invoke("run", agent_canvas(tmp_path), "question", "--settings", settings)
        log = requests(tmp_path)
    assert result.exit_code == 0, result.stderr
    events = frames(result)
    assert answer(events) == "Both are done: helped second question"
    assert sorted(row["user"] for row in log if row.get("rule") == 1) == ["first question", "second question"]
    used = events[-1]["data"]["usage"]
    assert used["completion_tokens"] >= 3


def test_a_run_is_recorded_and_replayed_when_the_server_is_gone(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    with mock_llm(tmp_path, TOOL_RULES.replace("CUTS", "cut_arguments = 4")) as url:
        canvas = agent_canvas(tmp_path, url)
        settings = settings_file(tmp_path, url)
        recorded = invoke("run", canvas, "question", "--settings", settings, "--record", tape)
    assert recorded.exit_code == 0, recorded.stderr
    (tmp_path / "settings.toml").unlink()
    replayed = invoke("run", canvas, "question", "--replay", tape)
    assert replayed.exit_code == 0, replayed.stderr
    assert steady(frames(replayed)) == steady(frames(recorded))
    assert "Both are done: helped second question" in answer(frames(replayed))
    written = tape.read_text("utf-8")
    assert KEY not in written
    assert CANVAS_KEY not in written
    assert replayed.stderr == ""


def test_secrets_of_a_canvas_within_another_stay_out_of_the_recording(tmp_path: Path) -> None:
    def write_inner(name: str, key: str) -> None:
        llm_canvas(tmp_path).rename(tmp_path / name)
        document = json.loads((tmp_path / name).read_text())
        document["components"]["LLM:A"]["obj"]["params"]["prompts"][0]["content"] = "Who is {env.service_token}?"
        document["variables"] = {"service_token": {"name": "service_token", "type": "string", "value": key}}
        (tmp_path / name).write_text(json.dumps(document))

    rules = """
[[rules]]
when.tools = "Inner"
when.last_role = "user"
replies = [{ calls = [{ name = "Inner_0", arguments = { query = "x" } }] }]
[[rules]]
replies = [{ text = "It is ${last}" }]
"""
    tape, keys = tmp_path / "tape.jsonl", ["node-key-0123456789", "tool-key-0123456789"]
    inner = {"component_name": "Canvas", "name": "Inner", "params": {"path": "tool.json"}}
    with mock_llm(tmp_path, rules) as url:
        write_inner("node.json", keys[0])
        write_inner("tool.json", keys[1])
        canvas = write_canvas(
            tmp_path / "outer.json",
            ("begin", "Begin", {}, ["Canvas:N"]),
            ("Canvas:N", "Canvas", {"path": "node.json", "arguments": {"query": "x"}}, ["Agent:A"]),
            ("Agent:A", "Agent", {"llm_id": "m@Mock", "prompts": "{sys.query}", "tools": [inner]}, ["Message:Out"]),
            ("Message:Out", "Message", {"content": ["{Canvas:N@content} {Agent:A@content}"]}, []),
        )
        recorded = invoke("run", canvas, "question", "--settings", settings_file(tmp_path, url), "--record", tape)
    assert recorded.exit_code == 0, recorded.stderr
    assert [key for key in keys if key not in answer(frames(recorded))] == [], recorded.stdout
    assert [key for key in keys if key in tape.read_text("utf-8")] == []
    replayed = invoke("run", canvas, "question", "--replay", tape)
    assert (replayed.stderr, replayed.exit_code) == ("", 0)


def test_a_replay_tells_what_has_changed(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    with mock_llm(tmp_path, '[[rules]]\nreplies = [{ text = "hi" }]') as url:
        canvas = llm_canvas(tmp_path)
        settings = settings_file(tmp_path, url)
        assert invoke("run", canvas, "one", "--settings", settings, "--record", tape).exit_code == 0
    strict = invoke("run", canvas, "two", "--replay", tape)
    assert strict.exit_code == 1
    assert "messages[0].content was 'one' and is 'two'" in strict.stderr
    assert "--record" in strict.stderr
    loose = invoke("run", canvas, "two", "--replay", tape, "--replay-mode", "loose", "-e", "pretty")
    assert (loose.exit_code, loose.stdout) == (0, "hi\n")


def test_a_form_is_answered_from_a_recording_too(tmp_path: Path) -> None:
    asked = {"llm_id": "m@Mock", "prompts": [{"role": "user", "content": "{UserFillUp:F@size}"}]}
    form = {"inputs": {"size": {"name": "size", "type": "line", "optional": False}}}
    canvas = write_canvas(
        tmp_path / "form.json",
        ("begin", "Begin", {}, ["UserFillUp:F"]),
        ("UserFillUp:F", "UserFillUp", form, ["LLM:A"]),
        ("LLM:A", "LLM", asked, ["Message:Out"]),
        ("Message:Out", "Message", {"content": ["{LLM:A@content}"]}, []),
    )
    tape, store = tmp_path / "tape.jsonl", f"sqlite:///{tmp_path}/s.db"

    def turn(session: str, *more: Any) -> str:
        invoke("run", canvas, "x", "-s", session, "--checkpoint", store)
        done = invoke("resume", session, "-i", "size=42", "--checkpoint", store, "-e", "pretty", *more)
        assert done.exit_code == 0, done.stderr
        return done.stdout

    with mock_llm(tmp_path, '[[rules]]\nreplies = [{ text = "size ${user}" }]') as url:
        assert turn("a", "--settings", settings_file(tmp_path, url), "--record", tape) == "size 42\n"
    assert turn("b", "--replay", tape) == "size 42\n"


def test_a_refusal_is_an_error(tmp_path: Path) -> None:
    with mock_llm(tmp_path, "[[rules]]\nreplies = [{ status = 401, error = 'who are you?' }]") as url:
        result = invoke("run", llm_canvas(tmp_path), "q", "--settings", settings_file(tmp_path, url))
    assert result.exit_code == 1
    assert "answered 401: who are you" in result.stderr


def test_the_example_rules_play_an_example(tmp_path: Path) -> None:
    rules = (ROOT / "examples" / "mock_rules.toml").read_text("utf-8")
    with mock_llm(tmp_path, rules) as url:
        settings = settings_file(tmp_path, url)
        canvas = ROOT / "examples" / "customer_service_router.json"
        result = invoke("run", canvas, "Where is my parcel?", "-m", "any@Mock", "--settings", settings, "-e", "pretty")
        log = requests(tmp_path)
    assert result.exit_code == 0, result.stderr
    assert "Delivery" in result.stdout
    assert "You said: Where is my parcel?" in result.stdout
    assert [row["status"] for row in log] == [429, 200, 200]
