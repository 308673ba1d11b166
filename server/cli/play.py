"""Playing a turn on the terminal: what every command that runs something does."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from ragflow_lg.adapters.replaying import Replay
from ragflow_lg.errors import AnswerError, CanvasChangedError, CheckpointError, ConflictError, RagflowLgError
from ragflow_lg.ids import thread_of_session
from ragflow_lg.runner import Run, Runner
from server.cli.console import show, show_forms
from server.cli.options import Events, ReplayMode
from server.cli.terminal import printable, shown_command
from server.library import load_canvas, open_services, read_canvas
from server.settings import Settings, load_settings
from server.tapes import open_tape
from server.telemetry import open_callbacks

if TYPE_CHECKING:
    from checkpoints import Store
    from ragflow_lg.compiled import CompiledCanvas

__all__ = [
    "TapeOptions",
    "canvas_of",
    "free_name",
    "has_session",
    "no_session",
    "play_canvas",
    "play_session",
    "with_store",
]

T = TypeVar("T")
EXIT_CODES = {"succeeded": 0, "waiting": 0, "refused": 2}
"""By status; everything else is 1."""

Begin = Callable[[Runner, str], Run | Awaitable[Run]]
"""Gives the run to play, from a runner and the session's name."""


@dataclass(frozen=True, slots=True)
class TapeOptions:
    """Whether a run is recorded or replayed."""

    record: Path | None = None
    replay: Path | None = None
    mode: ReplayMode = ReplayMode.STRICT

    def check(self, model: str) -> None:
        """Refuse what cannot be together.

        Raises:
            typer.BadParameter: if it is.
        """
        if self.replay and self.record:
            raise typer.BadParameter("A run is either recorded or replayed.", param_hint="--replay")
        if self.replay and model:
            raise typer.BadParameter("A replay asks no model; leave --model out.", param_hint="--replay")
        if self.mode is ReplayMode.LOOSE and not self.replay:
            raise typer.BadParameter("It says how to replay; name a file with --replay.", param_hint="--replay-mode")


def play_canvas(
    canvas: CompiledCanvas,
    begin: Begin,
    *,
    session: str,
    settings: Settings,
    checkpoint: str,
    model: str,
    canvas_id: str,
    events: Events | None,
    tapes: TapeOptions = TapeOptions(),
    inputs: Mapping[str, Any] | None = None,
    has_trace: bool = False,
) -> None:
    """Play a run and end the program: 0 if it ran or waits, 1 if it failed or was stopped, 2 if it could not begin.

    ``inputs`` may hold secrets that a recording has to leave out.
    """
    tapes.check(model)
    is_pretty = events is Events.PRETTY or (events is None and sys.stdout.isatty())
    name = session or uuid.uuid4().hex  # noqa: TID251 - a session nobody comes back to

    async def play() -> str:
        async with AsyncExitStack() as opened:
            sources = [read_canvas(Path(canvas_id)), dict(inputs or {})] if tapes.record or tapes.replay else []
            tape = opened.enter_context(
                open_tape(
                    tapes.record or "",
                    tapes.replay or "",
                    is_loose=tapes.mode is ReplayMode.LOOSE,
                    secrets=settings.secrets,
                    sources=sources,
                )
            )
            services = await opened.enter_async_context(open_services(settings, model=model, tape=tape))
            url = checkpoint or (settings.checkpoints if session else "memory://")
            store = await opened.enter_async_context(_open(url, settings))
            callbacks = await opened.enter_async_context(open_callbacks(settings))
            limit = settings.run.event_limit
            runner = Runner(canvas, services, store=store, canvas_id=canvas_id, event_limit=limit, callbacks=callbacks)
            begun = begin(runner, name)
            run = begun if isinstance(begun, Run) else await begun
            shown = show(canvas.plan, run, has_trace=has_trace) if is_pretty else _write_lines(run, has_trace)
            status = await _show(runner, run, name, shown, is_kept=bool(session), is_pretty=is_pretty)
            return _replayed(tape, run) if isinstance(tape, Replay) else status

    status = asyncio.run(play())
    raise typer.Exit(EXIT_CODES.get(status, 1))


def play_session(
    session: str,
    begin: Begin,
    *,
    canvas_file: Path | None,
    settings_file: Path | None,
    checkpoint: str,
    model: str,
    events: Events | None,
    tapes: TapeOptions = TapeOptions(),
    inputs: Mapping[str, Any] | None = None,
    has_trace: bool = False,
    target: Callable[[Store], Awaitable[str]] | None = None,
) -> None:
    """Play a run of a session that there is, with its own canvas. ``target`` names the session that comes of it."""
    tapes.check(model)
    settings = load_settings(settings_file)

    async def found(store: Store) -> tuple[Path, str]:
        file = canvas_file or Path(await canvas_of(store, session))
        return file, await target(store) if target else session

    file, name = with_store(settings, checkpoint, found)
    play_canvas(
        load_canvas(file, settings, asks_servers=tapes.replay is None),
        begin,
        session=name,
        settings=settings,
        checkpoint=checkpoint,
        model=model,
        canvas_id=str(file.resolve()),
        events=events,
        tapes=tapes,
        inputs=inputs,
        has_trace=has_trace,
    )


def with_store(settings: Settings, checkpoint: str, work: Callable[[Store], Awaitable[T]]) -> T:
    """Open the store of sessions, do something with it, close it."""

    async def run() -> T:
        async with _open(checkpoint or settings.checkpoints, settings) as store:
            return await work(store)

    return asyncio.run(run())


async def canvas_of(store: Store, session: str) -> str:
    """Give the canvas file that a session was last run with.

    Raises:
        CheckpointError: if the store does not know the session.
    """
    async for record in store.runs.of_session(session):
        return record.canvas_id
    raise no_session(session)


async def has_session(store: Store, session: str) -> bool:
    """Say whether the store knows a session."""
    async for _ in store.runs.of_session(session):
        return True
    place: Any = {"configurable": {"thread_id": thread_of_session(session), "checkpoint_ns": ""}}
    return await store.saver.aget_tuple(place) is not None


def no_session(session: str) -> CheckpointError:
    """Give the error that a session is not there."""
    return CheckpointError(f"There is no session {session!r} here; `ragflow-lg sessions` lists them.")


async def free_name(store: Store, name: str) -> str:
    """Give the name, or the first of NAME-2, NAME-3 and so on, that no session has."""
    number, free = 1, name
    while await has_session(store, free):
        number += 1
        free = f"{name}-{number}"
    return free


def _open(url: str, settings: Settings) -> Any:
    from checkpoints import open_store
    from ragflow_lg.adapters.system import SystemClock

    return open_store(url, SystemClock(), prefix=settings.checkpoint_prefix, ttl_s=settings.checkpoint_ttl_s)


async def _show(
    runner: Runner, run: Run, name: str, shown: Coroutine[Any, Any, None], *, is_kept: bool, is_pretty: bool
) -> str:
    _stop_on_signals(runner, run)
    try:
        await shown
    except AnswerError as error:
        _say(f"ragflow-lg: {error}")
        _say(await _how_to_answer(runner, name, error))
        return "refused"
    except (ConflictError, CanvasChangedError) as error:
        _say(f"ragflow-lg: {error}")
        return "refused"
    except RagflowLgError as error:
        _say(f"ragflow-lg: {error}")
    if run.status == "failed" and not is_pretty and run.error and run.failed_node:
        _say(f"ragflow-lg: {run.failed_node}: {run.error}")
    if run.status == "waiting" and is_pretty:
        pauses = await runner.pauses(name)
        show_forms(pauses)
        field = f"{pauses[0].node}@NAME=VALUE" if len(pauses) > 1 else "NAME=VALUE"
        how = shown_command("resume", name, "--input", field)
        _say(f"The turn waits for an answer: {how if is_kept else 'name a --session to be able to answer'}")
    if run.status in ("drained", "cancelled") and is_kept:
        _say(f"The turn was stopped; go on with: {shown_command('continue', name)}")
    return run.status


def _replayed(replay: Replay, run: Run) -> str:
    """Tell of what was asked in vain, also where the canvas has gone on; and of what was not asked any more."""
    for problem in replay.problems:
        if problem != run.error:
            _say(f"ragflow-lg: {problem}")
    if not replay.problems and replay.unused and run.status != "failed":
        _say(f"{replay.unused} recorded answer{' was' if replay.unused == 1 else 's were'} not asked for.")
    return "failed" if replay.problems else run.status


async def _how_to_answer(runner: Runner, session: str, error: AnswerError) -> str:
    """Say that a form is still open, and how to answer what was wrong or missing."""
    is_one = len(await runner.pauses(session)) == 1
    whose = "" if is_one else f"{error.node}@"
    words = [word for name in error.problems for word in ("--input", f"{whose}{name}=VALUE")]
    return f"The form of {error.node} is still open; answer it with: {shown_command('resume', session, *words)}"


def _say(text: str) -> None:
    sys.stderr.write(printable(text + "\n"))


def _stop_on_signals(runner: Runner, run: Run) -> None:
    """Let Ctrl-C cancel the turn, a second one end the program; SIGTERM stop it where it can go on."""
    loop = asyncio.get_running_loop()

    def cancel() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        run.cancel()

    loop.add_signal_handler(signal.SIGINT, cancel)
    loop.add_signal_handler(signal.SIGTERM, runner.drain)


async def _write_lines(run: Run, has_trace: bool) -> None:
    events: AsyncIterator[Any] = run.with_records() if has_trace else aiter(run)
    async for event in events:
        sys.stdout.write(json.dumps(run.envelope.wrap(event), ensure_ascii=False) + "\n")
        sys.stdout.flush()
