"""Running a turn from the command line, for all commands that run something: its files, and what comes next."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import uuid
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import typer
from msgspec import Struct

from ragflow_lg.base.errors import AnswerError, CanvasChangedError, ConflictError, RagflowLgError
from ragflow_lg.base.portability import on_signal, restore_interrupt
from ragflow_lg.component.node_names import with_node_id
from ragflow_lg.dsl.forms import FormField, form_fields, is_file
from ragflow_lg.runs.runner import Run, Runner, newest_run
from ragflow_lg.server.assembly.library import load_canvas, read_canvas
from ragflow_lg.server.assembly.open_services import open_services
from ragflow_lg.server.assembly.recordings import open_recording
from ragflow_lg.server.assembly.run_callbacks import open_callbacks
from ragflow_lg.server.cli.console import shorten_error, show, show_forms
from ragflow_lg.server.cli.form_fields import match_fields, read_value
from ragflow_lg.server.cli.options import PlayOptions
from ragflow_lg.server.cli.session_store import canvas_of, open_sessions, use_store
from ragflow_lg.server.cli.terminal import DEMO, count_of, format_command, print_note
from ragflow_lg.server.settings import Settings, load_settings

if TYPE_CHECKING:
    from ragflow_lg.adapters.recording.player import Player
    from ragflow_lg.adapters.recording.recorder import Recorder
    from ragflow_lg.checkpoints import Store
    from ragflow_lg.engine.compiled_canvas import CompiledCanvas
    from ragflow_lg.runs.pauses import Pause
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.services import Services


_MODEL_COMMANDS = ("run", "resume", "continue", "sessions rerun")


def next_command(options: PlayOptions, name: str, session: str, *words: str) -> str:
    """Return a command for the same session, with the same store, settings and model.

    A password in the store URL is masked.
    """
    values = {"--checkpoint": _mask_password(options.checkpoint), "--settings": str(options.settings or "")}
    if name in _MODEL_COMMANDS:
        values["--model"] = options.model or ""
    repeated = [word for option, value in values.items() if value for word in (option, value)]
    return format_command(*name.split(), session, *words, *repeated)


def _mask_password(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    login, at, host = rest.rpartition("@")
    user, colon, _ = login.partition(":")
    return f"{scheme}{separator}{user}:***@{host}" if at and colon else url


def waiting_hint(pauses: Sequence[Pause], options: PlayOptions, session: str, *, is_stored: bool) -> str:
    """Return a hint that a turn is waiting for an answer, with the command to answer it."""
    if not is_stored:
        advice = "To be able to answer, run it with --session NAME, and not in memory://."
        return f"The turn waits for an answer, but nothing is stored. {advice}"
    name = f"{pauses[0].node}@NAME" if len(pauses) > 1 else "NAME"
    fields = ["--input", f"{name}=VALUE"] if any(pause.inputs for pause in pauses) else []
    return f"The turn waits for an answer: {next_command(options, 'resume', session, *fields)}"


def answer_hint(pauses: Sequence[Pause], entries: Iterable[str], options: PlayOptions, session: str) -> str:
    """Return the names of the open forms, and a command that repeats the valid entries from the refused command."""
    if not pauses:
        return ""
    forms = " and ".join(f"{pause.node} ({', '.join(pause.inputs) or 'no fields'})" for pause in pauses)
    matches = match_fields(pauses, entries)
    targets = [pause for pause in pauses if matches.get(pause.id)] or pauses
    answers: dict[str, None] = {}
    for pause in targets:
        texts = matches.get(pause.id, {})
        for field in form_fields(pause.inputs):
            text = texts.get(field.name)
            if text is None and field.is_optional:
                continue
            name = field.name if len(pauses) == 1 else f"{pause.node}@{field.name}"
            default = "@FILE" if is_file(field.type) else "VALUE"
            answers[f"{name}={text if text is not None and _is_valid(field, text) else default}"] = None
    words = [word for answer in answers for word in ("--input", answer)]
    subject = f"The form in {forms} is" if len(pauses) == 1 else f"The forms in {forms} are"
    return f"{subject} still open. Answer with: {next_command(options, 'resume', session, *words)}"


def _is_valid(field: FormField, text: str) -> bool:
    try:
        read_value(field, text)
    except AnswerError:
        return False
    return True


DOWNLOADS = Path("ragflow-lg-downloads")
"""The folder for files if the settings name none."""

MAX_SHOWN = 20


def keep_files(settings: Settings) -> Settings:
    """Return settings with a folder for the files that runs write.

    The default folder must not be a link: somebody else may have made it in a folder that was cloned or unpacked.
    """
    if settings.run.downloads is not None:
        return settings
    if DOWNLOADS.is_symlink():
        print_note(f"{DOWNLOADS} is a link, so no files are written. Name a folder: RAGFLOW_LG_RUN__DOWNLOADS=FOLDER.")
        return settings
    return settings.model_copy(update={"run": settings.run.model_copy(update={"downloads": DOWNLOADS})})


class WrittenFiles:
    """Reports the files that runs with some services have written."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._reported = 0

    def report(self) -> None:
        """Print the paths of the files that have been written since the last report."""
        paths = [*self._paths()][self._reported :]
        self._reported += len(paths)
        for path in paths[:MAX_SHOWN]:
            print_note(f"Wrote {path}")
        if len(paths) > MAX_SHOWN:
            print_note(f"Wrote {len(paths) - MAX_SHOWN:,} more files to {paths[-1].parent}")

    def _paths(self) -> Iterator[Path]:
        from ragflow_lg.adapters.folder_artifacts import FolderArtifacts

        artifacts = self._services.artifacts
        yield from map(Path, artifacts.stored) if isinstance(artifacts, FolderArtifacts) else ()


MEMORY = "memory://"
EXIT_CODES = {"succeeded": 0, "waiting": 0, "refused": 2}
"""Exit code by status; it is 1 for every other status."""

Begin = Callable[[Runner, str], Run | Awaitable[Run]]
"""Returns the run to execute, given a runner and the session name."""


def play_canvas(
    canvas: CompiledCanvas,
    begin: Begin,
    *,
    session: str,
    settings: Settings,
    options: PlayOptions,
    canvas_id: str,
    inputs: Mapping[str, Any] | None = None,
    entries: Sequence[str] = (),
    reported: str = "",
) -> None:
    """Execute a run and exit with 0 if it succeeded or waits, 1 if it failed or was stopped, 2 if it could not start.

    ``inputs`` are values that must not appear in plain text in a recording, because they may be secrets. ``entries``
    are the form answers as typed, for the hint after a refused answer. ``reported`` is what has been printed of what
    the canvas lacks.
    """
    options.check_replay()
    settings = keep_files(settings)
    is_pretty = options.events != "json"
    name = session or uuid.uuid4().hex  # noqa: TID251 - a session that nobody continues
    url = options.checkpoint or (settings.checkpoints if session else MEMORY)
    caller = _Caller(options, name, entries, is_stored=url != MEMORY, reported=reported)

    async def play() -> str:
        with _open_recording(options, canvas, canvas_id, settings, inputs or {}) as recording:
            opened = open_runner(
                canvas, settings, url, canvas_id=canvas_id, model=options.model or "", recording=recording
            )
            async with opened as (runner, _):
                result = begin(runner, name)
                run = result if isinstance(result, Run) else await result
                shown = show(canvas.plan, run, has_trace=options.trace, reported=reported) if is_pretty else None
                output = shown or _write_events(run, options.trace)
                status = await _play(runner, run, caller, output, is_pretty=is_pretty)
                WrittenFiles(runner.services).report()
                return status if recording is None else _finish_recording(recording, run, status)

    status = asyncio.run(play())
    raise typer.Exit(EXIT_CODES.get(status, 1))


def play_session(
    session: str,
    begin: Begin,
    *,
    canvas_file: Path | None,
    options: PlayOptions,
    inputs: Mapping[str, Any] | None = None,
    name_target: Callable[[Store], Awaitable[str]] | None = None,
    entries: Sequence[str] = (),
) -> None:
    """Execute a run of an existing session with the session's canvas, and with the model of its last run.

    ``name_target`` returns the name of the new session for the run, if it needs one.
    """
    options.check_replay()
    settings = load_settings(options.settings)

    async def look_up(store: Store) -> tuple[Path, str, PlayOptions]:
        file = canvas_file or await canvas_of(store, session)
        target = await name_target(store) if name_target else session
        return file, target, await keep_model(store, session, options)

    file, name, options = use_store(settings, options.checkpoint, look_up)
    play_canvas(
        load_canvas(file, settings, model=options.model or "", asks_servers=options.replay is None),
        begin,
        session=name,
        settings=settings,
        options=options,
        canvas_id=str(file.resolve()),
        inputs=inputs,
        entries=entries,
    )


def _open_recording(
    options: PlayOptions, canvas: CompiledCanvas, canvas_id: str, settings: Settings, inputs: Mapping[str, Any]
) -> AbstractContextManager[Recorder | Player | None]:
    is_taped = options.record or options.replay
    return open_recording(
        options.record or "",
        options.replay or "",
        plan=canvas.plan,
        is_loose=options.replay_mode == "loose",
        secrets=settings.secrets,
        sources=[read_canvas(Path(canvas_id)), dict(inputs)] if is_taped else [],
    )


async def keep_model(store: Store, session: str, options: PlayOptions) -> PlayOptions:
    """Return options with the model of the session's last run, unless they name a model or a recording."""
    newest = await newest_run(store, session)
    if options.model is not None or options.replay or newest is None or not newest.model:
        return options
    print_note(f"The model is {newest.model}, as before. To use the models of the canvas, add --model ''.")
    return replace(options, model=newest.model)


@asynccontextmanager
async def open_runner(
    canvas: CompiledCanvas,
    settings: Settings,
    url: str,
    *,
    canvas_id: str,
    model: str,
    recording: Recorder | Player | None = None,
) -> AsyncGenerator[tuple[Runner, Store]]:
    """Open a runner for a canvas, with the session store at a URL."""
    async with (
        open_services(settings, model=model, recording=recording) as services,
        open_sessions(url, settings) as store,
        open_callbacks(settings) as callbacks,
    ):
        if services.is_demo:
            print_note(DEMO)
        options: Any = {"canvas_id": canvas_id, "model": model, "callbacks": callbacks}
        yield Runner(canvas, services, store=store, **options), store


class _Caller(Struct, frozen=True):
    """The command's invocation, for messages about the run."""

    options: PlayOptions
    session: str
    entries: Sequence[str]
    is_stored: bool
    """Whether another command can reach the session."""
    reported: str
    """What has been printed of what the canvas lacks."""


async def _play(
    runner: Runner, run: Run, caller: _Caller, output: Coroutine[Any, Any, None], *, is_pretty: bool
) -> str:
    """Await the output of the run, print notes about its end and return its status."""
    _stop_on_signals(runner, run)
    try:
        await output
    except AnswerError as error:
        print_note(f"ragflow-lg: {error}")
        pauses = await runner.pauses(caller.session)
        entries = [with_node_id(runner.plan, entry) for entry in caller.entries]
        print_note(answer_hint(pauses, entries, caller.options, caller.session))
        return "refused"
    except (ConflictError, CanvasChangedError) as error:
        print_note(f"ragflow-lg: {error}")
        return "refused"
    except RagflowLgError as error:
        print_note(f"ragflow-lg: {error}")
        if not run.has_started:
            return "refused"
    if run.status == "failed" and not is_pretty and run.error and run.failed_node:
        print_note(f"ragflow-lg: {run.failed_node}: {shorten_error(run.error, caller.reported)}")
    if run.status == "waiting":
        pauses = await runner.pauses(caller.session)
        if is_pretty:
            show_forms(pauses)
        print_note(waiting_hint(pauses, caller.options, caller.session, is_stored=caller.is_stored))
        if run.failed_node and caller.is_stored:
            command = next_command(caller.options, "sessions rerun", caller.session, "--from", run.failed_node)
            advice = f"Repeat the node then; the answer is kept: {command}"
            print_note(f"{run.failed_node} has failed, so the turn fails after the answer. {advice}")
    if run.status in ("drained", "cancelled") and caller.is_stored:
        print_note(f"The turn was stopped; finish it with: {next_command(caller.options, 'continue', caller.session)}")
    return run.status


def _finish_recording(recording: Recorder | Player, run: Run, status: str) -> str:
    """Return the status; report what a replay asked for and was not recorded, and what was recorded and not used.

    A request without an answer fails the command even if the canvas handled the error.
    """
    from ragflow_lg.adapters.recording.player import Player  # its models of records are slow to build

    if not isinstance(recording, Player):
        return status
    for problem in recording.problems:
        if problem != run.error:
            print_note(f"ragflow-lg: {problem}")
    if not recording.problems and recording.unused and run.status != "failed":
        verb = "was" if recording.unused == 1 else "were"
        print_note(f"{count_of(recording.unused, 'recorded answer')} {verb} not used.")
    return "failed" if recording.problems else run.status


def _stop_on_signals(runner: Runner, run: Run) -> None:
    """Make Ctrl-C cancel the turn (a second Ctrl-C ends the program) and SIGTERM stop it at the next step.

    A second SIGTERM does not wait for a model.
    """

    def cancel() -> None:
        restore_interrupt()
        run.cancel()

    def drain() -> None:
        on_signal(signal.SIGTERM, run.interrupt)
        runner.drain()

    on_signal(signal.SIGINT, cancel)
    on_signal(signal.SIGTERM, drain)


async def _write_events(run: Run, has_trace: bool) -> None:
    events = cast("AsyncIterator[Any]", run.with_records() if has_trace else aiter(run))
    async for event in events:
        sys.stdout.write(json.dumps(run.envelope.wrap(event), ensure_ascii=False) + "\n")
        sys.stdout.flush()
