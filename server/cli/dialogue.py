"""A conversation in the terminal: questions, commands that begin with ``/``, and forms."""

from __future__ import annotations

import asyncio
import signal
import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ragflow_lg.adapters.system_services import RandomIds, SystemClock
from ragflow_lg.base.errors import AnswerError, RagflowLgError
from ragflow_lg.base.portability import on_signal, restore_interrupt
from ragflow_lg.dsl.forms import FormField, form_fields
from ragflow_lg.server.cli.console import show, show_forms
from ragflow_lg.server.cli.file_attachments import read_attachments
from ragflow_lg.server.cli.form_fields import default_text, question_of, read_value
from ragflow_lg.server.cli.line_input import FILES, open_input
from ragflow_lg.server.cli.run_downloads import WrittenFiles
from ragflow_lg.server.cli.session_store import free_name
from ragflow_lg.server.cli.terminal import print_line, print_note
from ragflow_lg.server.runs.stored_sessions import fork_session, has_session

if TYPE_CHECKING:
    from ragflow_lg.checkpoints import Store
    from ragflow_lg.engine.compiled_canvas import CompiledCanvas
    from ragflow_lg.runs.pauses import Pause
    from ragflow_lg.runs.runner import Run, Runner

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
        self._input = open_input({**dict.fromkeys(self._commands, ()), "file": [FILES], "rerun": names})

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
