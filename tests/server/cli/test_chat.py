import json
from pathlib import Path

import pytest
from typer.testing import Result

from tests.fakes.canvas import canvas, node
from tests.server.cli.command import ROOT, invoke

ORDER = ROOT / "examples" / "order_form.json"


@pytest.fixture
def echo(tmp_path: Path) -> Path:
    path = tmp_path / "echo.json"
    begin = node("Begin", {"prologue": "Hello!"}, ["m"])
    text = "You: {sys.query} Files: {sys.files}"
    path.write_text(json.dumps(canvas({"begin": begin, "m": node("Message", {"content": [text]})})))
    return path


def talk(file: Path, *lines: str, session: str = "") -> Result:
    options = ["--model", "demo", "--checkpoint", f"sqlite:///{file.parent}/chat.db"]
    return invoke("chat", file, *options, *(["--session", session] if session else []), text="\n".join(lines) + "\n")


def test_a_conversation_is_greeted_answered_and_stored(echo: Path) -> None:
    result = talk(echo, "one", "two", session="anna")
    assert result.exit_code == 0, result.output
    assert result.stdout.index("Hello!") < result.stdout.index("You: one") < result.stdout.index("You: two")
    assert "The session is anna." in result.stderr
    again = talk(echo, "three", session="anna")
    assert "Going on with the session anna" in again.stderr
    assert "Hello!" not in again.stdout


def test_a_line_goes_on_after_a_backslash(echo: Path) -> None:
    assert "You: one\ntwo" in talk(echo, "one\\", "two").stdout


def test_a_file_goes_with_the_next_question_and_stays(echo: Path) -> None:
    note = echo.parent / "note.txt"
    note.write_text("milk")
    zero, one, two = talk(echo, "zero", f"/file {note}", "one", "two").stdout.split("You: ")[1:]
    assert "milk" not in zero
    assert "milk" in one
    assert "milk" in two


def test_errors_end_no_conversation(echo: Path) -> None:
    result = talk(echo, "/file /none/x.txt", "/rerun", "/rerun nowhere", "/what", "still here")
    assert "cannot be read" in result.stderr
    assert "Name the node" in result.stderr
    assert "There is no command /what" in result.stderr
    assert "You: still here" in result.stdout


def test_sessions_are_changed_by_commands(echo: Path) -> None:
    result = talk(
        echo,
        "one",
        "/rerun m",
        "/fork",
        "/session",
        "/new",
        "/session",
        "/trace",
        "/help",
        "/quit",
        "unread",
        session="a",
    )
    assert "The session is a-rerun." in result.stderr
    assert "a-rerun-fork" in result.stdout
    assert "chat-" in result.stdout
    assert result.stdout.count("You: one") == 2
    assert "/rerun NODE" in result.stderr
    assert "unread" not in result.stdout


def test_forms_are_asked_field_by_field_until_they_fit(tmp_path: Path) -> None:
    form = {
        "size": {"name": "Size", "type": "integer", "optional": False},
        "note": {"name": "Note", "type": "line", "optional": True},
    }
    ask = node("UserFillUp", {"inputs": form, "tips": "Which one?"}, ["m"])
    path = tmp_path / "form.json"
    path.write_text(json.dumps(canvas({"ask": ask, "m": node("Message", {"content": ["Size {ask@size}."]})})))
    result = talk(path, "shoes", "big", "42", "", session="anna")
    assert "Which one?" in result.stderr
    assert "Size 42." in result.stdout


def test_a_form_that_was_left_open_is_asked_when_the_session_goes_on(tmp_path: Path) -> None:
    ask = node("UserFillUp", {"inputs": {"size": {"name": "Size", "type": "line", "optional": False}}}, ["m"])
    path = tmp_path / "form.json"
    path.write_text(json.dumps(canvas({"ask": ask, "m": node("Message", {"content": ["Size {ask@size}."]})})))
    assert talk(path, "shoes", session="anna").exit_code == 0
    assert "Size L." in talk(path, "L", session="anna").stdout


def test_the_form_of_begin_is_asked_once_a_session(tmp_path: Path) -> None:
    begin = node("Begin", {"inputs": {"city": {"name": "City", "type": "line", "optional": False}}}, ["m"])
    path = tmp_path / "begin.json"
    path.write_text(
        json.dumps(canvas({"begin": begin, "m": node("Message", {"content": ["{begin@city}: {sys.query}"]})}))
    )
    result = talk(path, "one", "Rome", "two")
    assert "Rome: one" in result.stdout
    assert "Rome: two" in result.stdout


@pytest.mark.parametrize(("option", "is_research"), [([], False), (["--reasoning"], True)])
def test_a_chat_with_a_dataset_needs_no_canvas(
    option: list[str], is_research: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "leave.md").write_text("Everybody gets thirty days of leave each year.")
    assert invoke("kb", "add", "notes").exit_code == 0
    lines = "How many days of leave does everybody get?\n/quit\n"
    result = invoke("chat", "--dataset", "notes", *option, "--model", "demo", "--session", "s", text=lines)
    assert "thirty days of leave" in result.stdout
    assert ("Search: How many days of leave" in result.stderr) is is_research
    again = invoke("chat", "--dataset", "notes", *option, "--model", "demo", "--session", "s", text="/quit\n")
    assert "Going on with the session s" in again.stderr


@pytest.mark.parametrize("arguments", [["--reasoning", "x.json"], ["x.json", "--dataset", "notes"]])
def test_a_chat_is_with_a_canvas_or_with_datasets(arguments: list[str]) -> None:
    result = invoke("chat", *arguments)
    assert (result.exit_code, "--dataset" in result.stderr) == (2, True)
