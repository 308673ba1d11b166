"""Lines that a user types: with editing, history and completion on a terminal, or plainly from a pipe."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ragflow_lg.base.extras import require
from ragflow_lg.server.cli.terminal import paint

if TYPE_CHECKING:
    from prompt_toolkit.completion import CompleteEvent, Completion
    from prompt_toolkit.document import Document

FILES = ":files"
"""In the values of a command, stands for the names of files."""


class LineInput(Protocol):
    """Reads what a user types."""

    async def read(self, prompt: str, *, is_question: bool = False) -> str:
        """Return the next text, which may have several lines. A question has a history and can be a command.

        Raises:
            EOFError: if the input has ended.
            KeyboardInterrupt: if the user drops the line with Ctrl-C.
        """
        ...


def require_line_editor() -> None:
    """Check that lines can be edited, if standard input is a terminal. Lines of a pipe need nothing.

    Raises:
        SettingsError: if the extra is missing.
    """
    if _is_terminal():
        require("chat", "`ragflow-lg chat` on a terminal")


def open_input(commands: Mapping[str, Sequence[str]]) -> LineInput:
    """Return the input for a conversation. ``commands`` are the values that complete each command."""
    return TerminalInput(commands) if _is_terminal() else PlainInput()


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


class PlainInput:
    """Reads lines of standard input. A line that ends with a backslash goes on in the next one."""

    async def read(self, prompt: str, *, is_question: bool = False) -> str:
        """Return the next line, as `LineInput` describes."""
        text = await asyncio.to_thread(_read_line, paint(prompt, "cyan", "bold") if is_question else prompt)
        while text.endswith("\\"):
            text = text[:-1] + "\n" + await asyncio.to_thread(_read_line, paint("… ", "dim"))
        return text


def _read_line(prompt: str) -> str:
    sys.stderr.write(prompt)
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.removesuffix("\n").removesuffix("\r")


class TerminalInput:
    """Reads lines on a terminal. Alt-Enter, or a backslash before Enter, begins a new line; a paste keeps its lines."""

    def __init__(self, commands: Mapping[str, Sequence[str]]) -> None:
        """Open the terminal. The history lasts as long as the conversation, because questions can be confidential."""
        from prompt_toolkit import PromptSession
        from prompt_toolkit.output import create_output

        output = create_output(stdout=sys.stdout if sys.stdout.isatty() else sys.stderr)
        self._questions: PromptSession[str] = PromptSession(
            output=output,
            completer=_completer(commands),
            complete_while_typing=False,
            key_bindings=_key_bindings(),
            multiline=False,
            prompt_continuation="… ",
            enable_open_in_editor=True,
        )
        self._answers: PromptSession[str] = PromptSession(output=output, prompt_continuation="… ")

    async def read(self, prompt: str, *, is_question: bool = False) -> str:
        """Return what is typed, as `LineInput` describes."""
        if is_question:
            return await self._questions.prompt_async([("ansicyan bold", prompt)])
        return await self._answers.prompt_async(prompt)


def _key_bindings() -> Any:
    from prompt_toolkit.key_binding import KeyBindings

    bindings = KeyBindings()

    @bindings.add("escape", "enter")
    def _(event: Any) -> None:
        event.current_buffer.insert_text("\n")

    @bindings.add("enter")
    def _(event: Any) -> None:
        buffer = event.current_buffer
        if buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    return bindings


def _completer(commands: Mapping[str, Sequence[str]]) -> Any:
    from prompt_toolkit.completion import Completer, Completion, PathCompleter
    from prompt_toolkit.document import Document as Text

    files = PathCompleter(expanduser=True)

    class CommandCompleter(Completer):
        """Completes what begins with a slash."""

        def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
            text = document.text_before_cursor
            name, space, argument = text.removeprefix("/").partition(" ")
            if not text.startswith("/"):
                return
            if space and FILES in commands.get(name, ()):
                yield from files.get_completions(Text(argument), complete_event)
                return
            typed = argument if space else name
            for value in commands.get(name, ()) if space else commands:
                if value.casefold().startswith(typed.casefold()):
                    yield Completion(value, start_position=-len(typed))

    return CommandCompleter()
