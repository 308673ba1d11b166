from pathlib import Path

import pytest
from typer.testing import Result

from tests.fakes.canvas import node
from tests.harness.rows import each_row
from tests.server.cli.command import invoke, save

TEXT = "You: {sys.query} Files: {sys.files}"


@pytest.fixture
def echo() -> Path:
    begin = node("Begin", {"prologue": "Hello!"}, ["m"])
    return save("echo.json", {"begin": begin, "m": node("Message", {"content": [TEXT]})})


def asking(field: dict[str, object]) -> Path:
    """Return a canvas that asks for a size."""
    ask = node("UserFillUp", {"inputs": {"size": field}, "tips": "Which one?"}, ["m"])
    return save("form.json", {"ask": ask, "m": node("Message", {"content": ["Size {ask@size}."]})})


def talk(file: Path, *lines: str, session: str = "") -> Result:
    options = ["--model", "demo", "--checkpoint", "sqlite:///chat.db"]
    return invoke("chat", file, *options, *(["--session", session] if session else []), text="\n".join(lines) + "\n")


def test_a_conversation_is_greeted_answered_and_stored(echo: Path) -> None:
    result = talk(echo, "one", "two\\", "and more", session="anna")
    assert result.exit_code == 0, result.output
    shown = result.stdout
    assert shown.index("Hello!") < shown.index("You: one") < shown.index("You: two\nand more")
    assert "The session is anna." in result.stderr
    again = talk(echo, "three", session="anna")
    assert "Going on with the session anna" in again.stderr
    assert "Hello!" not in again.stdout


def test_a_file_goes_with_the_next_question_and_stays(echo: Path) -> None:
    Path("note.txt").write_text("milk")
    answers = talk(echo, "zero", "/file note.txt", "one", "two").stdout.split("You: ")[1:]
    assert ["milk" in answer for answer in answers] == [False, True, True]


def test_what_is_missing_is_said_at_the_beginning() -> None:
    assert "The dataset 'nope' does not exist" in invoke("chat", "--dataset", "nope", "--model", "demo", text="").stderr


def test_errors_end_no_conversation(echo: Path) -> None:
    result = talk(echo, "/file /none/x.txt", "/rerun", "/rerun nowhere", "/what", "still here")
    for problem in ("cannot be read", "Name the node", "There is no command /what"):
        assert problem in result.stderr
    assert "You: still here" in result.stdout


def test_sessions_are_changed_by_commands(echo: Path) -> None:
    commands = "one,/rerun m,/fork,/session,/new,/session,/trace,/help,/quit,unread"
    result = talk(echo, *commands.split(","), session="a")
    assert "The session is a-rerun." in result.stderr
    assert "/rerun NODE" in result.stderr
    assert [text in result.stdout for text in ("a-rerun-fork", "chat-", "unread")] == [True, True, False]
    assert result.stdout.count("You: one") == 2


def test_forms_are_asked_field_by_field_until_they_fit() -> None:
    result = talk(asking({"name": "Size", "type": "integer", "optional": False}), "shoes", "big", "42", session="anna")
    assert "Which one?" in result.stderr
    assert "Size 42." in result.stdout


def test_a_form_that_was_left_open_is_asked_when_the_session_goes_on() -> None:
    path = asking({"name": "Size", "type": "line", "optional": False})
    assert talk(path, "shoes", session="anna").exit_code == 0
    assert "Size L." in talk(path, "L", session="anna").stdout


def test_the_form_of_begin_is_asked_once_a_session() -> None:
    begin = node("Begin", {"inputs": {"city": {"name": "City", "type": "line", "optional": False}}}, ["m"])
    path = save("begin.json", {"begin": begin, "m": node("Message", {"content": ["{begin@city}: {sys.query}"]})})
    shown = talk(path, "one", "Rome", "two").stdout
    assert ["Rome: one" in shown, "Rome: two" in shown] == [True, True]


@each_row(("option", "is_research"), [([], False), (["--reasoning"], True)])
def test_a_chat_with_a_dataset_needs_no_canvas(option: list[str], is_research: bool) -> None:
    Path("notes").mkdir(exist_ok=True)
    Path("notes/leave.md").write_text("Everybody gets thirty days of leave each year.")
    assert invoke("kb", "add", "notes").exit_code == 0
    chat = ("chat", "--dataset", "notes", *option, "--model", "demo", "--session", f"s{is_research}")
    result = invoke(*chat, text="How many days of leave does everybody get?\n/quit\n")
    assert "thirty days of leave" in result.stdout
    assert ("Search: How many days of leave" in result.stderr) is is_research
    assert "Going on with the session s" in invoke(*chat, text="/quit\n").stderr


@each_row("arguments", [["--reasoning", "x.json"], ["x.json", "--dataset", "notes"]])
def test_a_chat_is_with_a_canvas_or_with_datasets(arguments: list[str]) -> None:
    result = invoke("chat", *arguments)
    assert (result.exit_code, "--dataset" in result.stderr) == (2, True)
