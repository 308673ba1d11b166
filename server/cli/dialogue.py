"""A conversation in the terminal: lines that a user types, commands that begin with ``/``, and forms."""

from __future__ import annotations

import asyncio
import signal
import sys
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ragflow_lg.adapters.system_services import RandomIds, SystemClock
from ragflow_lg.base.errors import AnswerError, RagflowLgError
from ragflow_lg.base.extras import require
from ragflow_lg.base.portability import on_signal, restore_interrupt
from ragflow_lg.dsl.forms import FormField, form_fields
from ragflow_lg.server.cli.console import show, show_forms
from ragflow_lg.server.cli.form_fields import default_text, question_of, read_attachments, read_value
from ragflow_lg.server.cli.play import WrittenFiles
from ragflow_lg.server.cli.session_store import free_name
from ragflow_lg.server.cli.terminal import paint, print_line, print_note
from ragflow_lg.server.runs.stored_sessions import fork_session, has_session

if TYPE_CHECKING:
    from prompt_toolkit.completion import CompleteEvent, Completion
    from prompt_toolkit.document import Document

    from ragflow_lg.checkpoints import Store
    from ragflow_lg.engine.compiled_canvas import CompiledCanvas
    from ragflow_lg.runs.pauses import Pause
    from ragflow_lg.runs.runner import Run, Runner


FILES = ":files"
"""In the values of a command, stands for the names of files."""


def require_line_editor() -> None:
    """Check that lines can be edited, if standard input is a terminal. Lines of a pipe need nothing.

    Raises:
        SettingsError: if the extra is missing.
    """
    if _is_terminal():
        require("chat", "`ragflow-lg chat` on a terminal")


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


class PlainInput:
    """Reads lines of standard input. A line that ends with a backslash goes on in the next one."""

    async def read(self, prompt: str, *, is_question: bool = False) -> str:
        """Return the next text, which may have several lines. A question has a history and can be a command.

        Raises:
            EOFError: if the input has ended.
            KeyboardInterrupt: if the user drops the line with Ctrl-C.
        """
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
        """Return what is typed, as `PlainInput.read` describes."""
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


HELP = """Write a question and press Enter. Alt-Enter, or \\ at the end of a line, begins a new line.
  /file PATH     attach a file; it stays until another one replaces it
  /rerun NODE    play the last turn again from a node, in a new session
  /fork          go on in a copy of the session
  /new           begin a new session
  /session       show the name of the session
  /trace         show what agents do, or hide it
  /form          answer the form that waits, after Ctrl-C has left it
  /continue      finish a turn that was stopped or interrupted
  /quit          end; Ctrl-D does so as well, and Ctrl-C stops an answer or leaves a form"""

Command = Callable[[str], Awaitable[None]]


class Dialogue:
    """The loop of questions, commands and forms. Its session is stored, so any other command can go on with it."""

    def __init__(self, canvas: CompiledCanvas, canvas_id: str, runner: Runner, store: Store, session: str) -> None:
        """Create a dialogue in a session; an empty name stands for a new one."""
        self._canvas = canvas
        self._canvas_id = canvas_id
        self._runner = runner
        self._store = store
        self._session = session or _new_name()
        self._written_files = WrittenFiles(runner.services)
        self._files: list[Path] = []
        self._fields: dict[str, Any] = {}
        """Begin's fields. They are asked once a session."""
        self._has_trace = False
        self._is_form_left = False
        """Whether the user has left the form that waits; it is not asked again before the user wants it."""
        self._has_ended = False
        self._commands: dict[str, Command] = {
            "file": self._attach,
            "continue": self._continue,
            "fork": self._fork,
            "form": self._return_to_form,
            "help": self._help,
            "new": self._begin_session,
            "quit": self._quit,
            "rerun": self._rerun,
            "session": self._show_session,
            "trace": self._toggle_trace,
        }
        nodes = runner.plan.nodes.values()
        names = [*(node.id for node in nodes), *(node.title for node in nodes if node.title)]
        completed = {**dict.fromkeys(self._commands, ()), "file": [FILES], "rerun": names}
        self._input = TerminalInput(completed) if _is_terminal() else PlainInput()

    async def run(self) -> None:
        """Converse until the input ends, or the user does."""
        await self._greet()
        while not self._has_ended:
            try:
                pauses = [] if self._is_form_left else await self._runner.pauses(self._session)
                if pauses:
                    await self._answer(pauses)
                else:
                    await self._take_line()
            except typer.BadParameter as error:
                print_note(error.message)
            except RagflowLgError as error:
                print_note(str(error))
            except KeyboardInterrupt:
                print_note("The line is dropped. /quit or Ctrl-D ends the conversation.")
            except EOFError:
                self._has_ended = True
        print_note(f"The session is {self._session}.")

    async def _greet(self) -> None:
        if await has_session(self._store, self._session):
            print_note(f"Going on with the session {self._session}. /help lists the commands.")
            if await self._runner.unfinished_checkpoint(self._session):
                print_note("Its last turn was interrupted: /continue finishes it, a question begins a new turn.")
            return
        plan = self._runner.plan
        if prologue := str(getattr(plan.nodes[plan.entry].params, "prologue", "") or ""):
            print_line(prologue)
        print_note("/help lists the commands.")

    async def _take_line(self) -> None:
        line = await self._input.read("> ", is_question=True)
        name, _, argument = line.strip().removeprefix("/").partition(" ")
        if line.startswith("/"):
            command = self._commands.get(name)
            await (command(argument.strip()) if command else self._unknown(name))
        elif line.strip():
            await self._ask(line)

    async def _ask(self, query: str) -> None:
        if self._runner.plan.form and not self._fields:
            self._fields = await self._fill(self._runner.plan.form)
        inputs = {name: {"value": value} for name, value in self._fields.items()}
        if self._is_form_left and await self._runner.pauses(self._session):
            await self._runner.abandon(self._session)  # else the question would answer a form with one field
        files, self._files = await asyncio.to_thread(read_attachments, self._files), []
        await self._play(self._runner.start(self._session, {"query": query, "inputs": inputs, "files": files}))

    async def _answer(self, pauses: Sequence[Pause]) -> None:
        answers: dict[str, dict[str, Any]] = {}
        for pause in pauses:
            show_forms([pause])
            try:
                values = await self._fill(form_fields(pause.inputs))
            except KeyboardInterrupt:
                self._is_form_left = True
                print_note("The form waits: /form answers it, a question begins a new turn.")
                return
            answers[pause.id] = {name: {"value": value} for name, value in values.items()}
        await self._play(self._runner.resume(self._session, answers))

    async def _fill(self, form: Iterable[FormField]) -> dict[str, Any]:
        """Ask for each field until its value fits. An empty line leaves an optional field out, or takes its default."""
        values: dict[str, Any] = {}
        for field in form:
            default = default_text(field)
            question = f"{question_of(field)}{f' [{default}]' if default else ''}: "
            while (text := await self._input.read(question) or default) or not field.is_optional:
                try:
                    values[field.name] = read_value(field, text)
                    break
                except AnswerError as problem:
                    print_note(str(problem))
        return values

    async def _play(self, run: Run) -> None:
        self._is_form_left = False
        on_signal(signal.SIGINT, run.cancel)
        try:
            await show(self._runner.plan, run, has_trace=self._has_trace)
        finally:
            restore_interrupt()
            self._written_files.report()
        if run.status == "cancelled":
            print_note("/continue finishes the answer, a question begins a new turn.")

    async def _help(self, argument: str) -> None:
        print_note(HELP)

    async def _quit(self, argument: str) -> None:
        self._has_ended = True

    async def _unknown(self, name: str) -> None:
        print_note(f"There is no command /{name}. /help lists the commands.")

    async def _attach(self, argument: str) -> None:
        path = await asyncio.to_thread(_check_file, argument)
        self._files.append(path)
        print_note(f"{path.name} goes with the next question.")

    async def _return_to_form(self, argument: str) -> None:
        self._is_form_left = False
        if not await self._runner.pauses(self._session):
            print_note("No form waits.")

    async def _begin_session(self, argument: str) -> None:
        self._session, self._fields, self._is_form_left = _new_name(), {}, False
        await self._greet()

    async def _show_session(self, argument: str) -> None:
        print_line(self._session)

    async def _toggle_trace(self, argument: str) -> None:
        self._has_trace = not self._has_trace
        print_note(f"What agents do is {'shown' if self._has_trace else 'hidden'}.")

    async def _continue(self, argument: str) -> None:
        await self._play(self._runner.continue_(self._session))

    async def _fork(self, argument: str) -> None:
        target = await free_name(self._store, f"{self._session}-fork")
        await fork_session(
            self._store,
            self._canvas,
            self._session,
            target,
            "",
            canvas_id=self._canvas_id,
            clock=SystemClock(),
            ids=RandomIds(),
        )
        self._session = target
        print_note(f"The session is {target}.")

    async def _rerun(self, argument: str) -> None:
        if not argument:
            raise typer.BadParameter("Name the node: /rerun NODE, by its id or its title.")
        target = await free_name(self._store, f"{self._session}-rerun")
        run = await self._runner.rerun(self._session, target, argument)
        self._session = target
        print_note(f"The session is {target}.")
        await self._play(run)


def _check_file(name: str) -> Path:
    path = Path(name).expanduser()
    read_attachments([path])
    return path


def _new_name() -> str:
    return f"chat-{uuid.uuid4().hex[:8]}"  # noqa: TID251 - a name that the user sees and may continue
