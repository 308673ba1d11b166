"""Conversations on a real terminal."""

import os
import pty
import select
import signal
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ragflow_lg.base import extras
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.cli.dialogue import require_line_editor
from tests.fakes.canvas import node
from tests.harness.loaded_python import python_command
from tests.server.cli.command import ROOT, end, read_lines, save, start

PROMPT = "\x1b[?2004h"
"""The terminal's control sequence with which a prompt begins."""

UP, CONTROL_C, CONTROL_D, ALT_ENTER = "\x1b[A", "\x03", "\x04", "\x1b\r"


class Terminal:
    """A terminal in which ``ragflow-lg chat`` runs."""

    def __init__(self, child: int, terminal: int) -> None:
        self.child, self._terminal, self.shown = child, terminal, ""

    def type(self, text: str, expected: str) -> str:
        """Type a text and return what is shown until the expected text."""
        os.write(self._terminal, text.encode())
        return self._read(expected)

    def ask(self, text: str, expected: str) -> None:
        """Type a text, and wait for what is expected and for the next prompt."""
        if PROMPT not in self.type(text, expected).rpartition(expected)[2]:
            self._read(PROMPT)

    def _read(self, expected: str) -> str:
        end, new = time.monotonic() + 120, ""
        while expected not in new:
            assert time.monotonic() < end, self.shown + new
            if select.select([self._terminal], [], [], 0.2)[0]:
                new += os.read(self._terminal, 4096).decode("utf-8", "replace")
        self.shown += new
        return new


@contextmanager
def chat(file: Path, *options: str) -> Generator[Terminal]:
    store = f"sqlite:///{file.parent}/chat.db"
    words = python_command("-m", "ragflow_lg", "chat", file, "--session", "anna", *options, "--checkpoint", store)
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(file.parent)
        terminal_is = {"TERM": "xterm", "COLUMNS": "200", "PROMPT_TOOLKIT_NO_CPR": "1"}
        os.execvpe(words[0], words, {**os.environ, "PYTHONPATH": str(ROOT), **terminal_is})
    try:
        yield Terminal(child, terminal)
    finally:
        os.kill(child, signal.SIGKILL)
        os.close(terminal)
        os.waitpid(child, 0)


@pytest.fixture
def echo(tmp_path: Path) -> Path:
    text = "You: {sys.query} Files: {sys.files}"
    return save(tmp_path / "echo.json", {"m": node("Message", {"content": [text]})})


def test_lines_are_edited_remembered_and_completed(echo: Path) -> None:
    (echo.parent / "note.txt").write_text("milk")
    with chat(echo, "--model", "demo") as terminal:
        terminal.ask("", "/help lists")
        terminal.ask("first\r", "You: first")
        terminal.ask(f"one{ALT_ENTER}two\r", "You: one\r\ntwo")
        terminal.ask(f"{UP}{UP}{UP}\r", "You: first")
        terminal.ask("dropped" + CONTROL_C, "The line is dropped")
        terminal.type("/fi\t", "le")
        terminal.type(" not\t", "e.txt")
        terminal.ask("\r", "note.txt goes with the next question")
        terminal.ask("three\r", "milk")
        terminal.type("/rerun beg\t", "in")
        terminal.ask("\r", "The session is anna-rerun")
        terminal.type(CONTROL_D, "The session is anna-rerun.")


@pytest.fixture
def slow_model(tmp_path: Path) -> Generator[Path]:
    """A canvas whose model shows one word and then waits."""
    (tmp_path / "rules.toml").write_text('[[rules]]\nreplies = [{ text = ["Well", ", done."], piece_delay_s = 60 }]')
    server = start("mock-llm", "rules.toml")
    (url,) = read_lines(server, 1)
    provider = f'[providers.Slow]\nbase_url = "{url}"\nmodels = ["slow"]\nmax_retries = 0\n'
    (tmp_path / "settings.toml").write_text(provider)
    params = {"llm_id": "slow@Slow", "prompts": [{"role": "user", "content": "{sys.query}"}]}
    nodes = {"l": node("LLM", params, ["m"]), "m": node("Message", {"content": ["{l@content}"]})}
    yield save(tmp_path / "slow.json", nodes)
    end(server)


def test_control_c_stops_an_answer_and_keeps_the_conversation(slow_model: Path) -> None:
    with chat(slow_model, "--settings", "settings.toml") as terminal:
        terminal.ask("", "/help lists")
        terminal.type("hello\r", "Well")
        terminal.ask(CONTROL_C, "/continue finishes the answer")
        terminal.type("/session\r", "anna")


def test_a_killed_conversation_goes_on(slow_model: Path) -> None:
    with chat(slow_model, "--settings", "settings.toml") as terminal:
        terminal.ask("", "/help lists")
        terminal.type("hello\r", "Well")
        os.kill(terminal.child, signal.SIGKILL)
    with chat(slow_model, "--settings", "settings.toml") as terminal:
        terminal.ask("", "/help lists")
        assert "Going on with the session anna" in terminal.shown
        terminal.type("/continue\r", "Well")


def test_control_c_leaves_a_form_which_waits(tmp_path: Path) -> None:
    form = {"size": {"name": "Size", "type": "line", "optional": False}}
    message = node("Message", {"content": ["{sys.query}, size {ask@size}."]})
    path = save(tmp_path / "form.json", {"ask": node("UserFillUp", {"inputs": form}, ["m"]), "m": message})
    with chat(path, "--model", "demo") as terminal:
        terminal.ask("", "/help lists")
        terminal.type("shoes\r", "Size:")
        terminal.ask(CONTROL_C, "The form waits: /form")
        terminal.ask("/session\r", "anna")
        terminal.type("/form\r", "Size:")
        terminal.ask("L\r", "shoes, size L.")
        terminal.ask("/form\r", "No form waits.")
        terminal.type("boots\r", "Size:")
        terminal.ask(CONTROL_C, "The form waits")
        terminal.type("hats\r", "Size:")
        terminal.ask("M\r", "hats, size M.")


def test_a_terminal_needs_the_line_editor_and_a_pipe_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_nothing(name: str) -> None:
        return None

    monkeypatch.setattr(extras, "find_spec", find_nothing)
    require_line_editor()
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with pytest.raises(SettingsError, match=r"chat` on a terminal needs prompt_toolkit.*pip install '.*\[chat\]'"):
        require_line_editor()
