"""Playing a turn on the terminal: what every command that runs something does."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from msgspec import Struct

from ragflow_lg.adapters.recording.player import Player
from ragflow_lg.base.errors import AnswerError, CanvasChangedError, CheckpointError, ConflictError, RagflowLgError
from ragflow_lg.runs.runner import Run, Runner
from ragflow_lg.server.assembly.library import load_canvas, open_services, read_canvas
from ragflow_lg.server.assembly.recordings import open_recording
from ragflow_lg.server.cli.console import show, show_forms
from ragflow_lg.server.cli.next_step_hints import Place, how_to_answer, how_to_wait
from ragflow_lg.server.cli.options import Events, ReplayMode
from ragflow_lg.server.cli.terminal import printable
from ragflow_lg.server.observability.telemetry import open_callbacks
from ragflow_lg.server.runs.stored_sessions import has_session, newest_run
from ragflow_lg.server.settings import Settings, load_settings

if TYPE_CHECKING:
    from ragflow_lg.checkpoints import Store
    from ragflow_lg.engine.compiled_canvas import CompiledCanvas

__all__ = [
    "TapeOptions",
    "canvas_of",
    "free_name",
    "no_session",
    "play_canvas",
    "play_session",
    "with_store",
]

T = TypeVar("T")
MEMORY = "memory://"
EXIT_CODES = {"succeeded": 0, "waiting": 0, "refused": 2}
"""By status; everything else is 1."""

Begin = Callable[[Runner, str], Run | Awaitable[Run]]
"""Gives the run to play, from a runner and the session's name."""


class TapeOptions(Struct, frozen=True):
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
    place: Place,
    canvas_id: str,
    events: Events | None,
    tapes: TapeOptions = TapeOptions(),
    inputs: Mapping[str, Any] | None = None,
    has_trace: bool = False,
    given: Sequence[str] = (),
    before: Callable[[Store], Awaitable[None]] | None = None,
) -> None:
    """Play a run and end the program: 0 if it ran or waits, 1 if it failed or was stopped, 2 if it could not begin.

    ``inputs`` may hold secrets that a recording has to leave out; ``given`` are the answers to forms as they were
    typed, for what is said where they are refused; ``before`` may look into the store and refuse.
    """
    tapes.check(place.model)
    is_pretty = events is Events.PRETTY or (events is None and sys.stdout.isatty())
    name = session or uuid.uuid4().hex  # noqa: TID251 - a session nobody comes back to
    url = place.checkpoint or (settings.checkpoints if session else MEMORY)
    told = _Told(place, name, given, is_kept=url != MEMORY)

    async def play() -> str:
        async with AsyncExitStack() as opened:
            sources = [read_canvas(Path(canvas_id)), dict(inputs or {})] if tapes.record or tapes.replay else []
            tape = opened.enter_context(
                open_recording(
                    tapes.record or "",
                    tapes.replay or "",
                    plan=canvas.plan,
                    is_loose=tapes.mode is ReplayMode.LOOSE,
                    secrets=settings.secrets,
                    sources=sources,
                )
            )
            services = await opened.enter_async_context(open_services(settings, model=place.model, recording=tape))
            store = await opened.enter_async_context(_open(url, settings))
            if before is not None:
                await before(store)
            callbacks = await opened.enter_async_context(open_callbacks(settings))
            limit = settings.run.event_limit
            runner = Runner(canvas, services, store=store, canvas_id=canvas_id, event_limit=limit, callbacks=callbacks)
            begun = begin(runner, name)
            run = begun if isinstance(begun, Run) else await begun
            shown = show(canvas.plan, run, has_trace=has_trace) if is_pretty else _write_lines(run, has_trace)
            status = await _show(runner, run, told, shown, is_pretty=is_pretty)
            return _replayed(tape, run) if isinstance(tape, Player) else status

    status = asyncio.run(play())
    raise typer.Exit(EXIT_CODES.get(status, 1))


def play_session(
    session: str,
    begin: Begin,
    *,
    canvas_file: Path | None,
    place: Place,
    events: Events | None,
    tapes: TapeOptions = TapeOptions(),
    inputs: Mapping[str, Any] | None = None,
    has_trace: bool = False,
    target: Callable[[Store], Awaitable[str]] | None = None,
    given: Sequence[str] = (),
) -> None:
    """Play a run of a session that there is, with its own canvas. ``target`` names the session that comes of it."""
    tapes.check(place.model)
    settings = load_settings(place.settings)

    async def found(store: Store) -> tuple[Path, str]:
        file = canvas_file or Path(await canvas_of(store, session))
        return file, await target(store) if target else session

    file, name = with_store(settings, place.checkpoint, found)
    play_canvas(
        load_canvas(file, settings, asks_servers=tapes.replay is None),
        begin,
        session=name,
        settings=settings,
        place=place,
        canvas_id=str(file.resolve()),
        events=events,
        tapes=tapes,
        inputs=inputs,
        has_trace=has_trace,
        given=given,
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
    if newest := await newest_run(store, session):
        return newest.canvas_id
    raise no_session(session)


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
    from ragflow_lg.adapters.system_services import SystemClock
    from ragflow_lg.checkpoints import open_store

    return open_store(url, SystemClock(), prefix=settings.checkpoint_prefix, ttl_s=settings.checkpoint_ttl_s)


class _Told(Struct, frozen=True):
    """What is known beside the run for what is said about it."""

    place: Place
    session: str
    given: Sequence[str]
    is_kept: bool
    """Whether another command can come back to the session."""


async def _show(runner: Runner, run: Run, told: _Told, shown: Coroutine[Any, Any, None], *, is_pretty: bool) -> str:
    _stop_on_signals(runner, run)
    try:
        await shown
    except AnswerError as error:
        _say(f"ragflow-lg: {error}")
        _say(how_to_answer(await runner.pauses(told.session), told.given, told.place, told.session))
        return "refused"
    except (ConflictError, CanvasChangedError) as error:
        _say(f"ragflow-lg: {error}")
        return "refused"
    except RagflowLgError as error:
        _say(f"ragflow-lg: {error}")
    if run.status == "failed" and not is_pretty and run.error and run.failed_node:
        _say(f"ragflow-lg: {run.failed_node}: {run.error}")
    if run.status == "waiting":
        pauses = await runner.pauses(told.session)
        if is_pretty:
            show_forms(pauses)
        _say(how_to_wait(pauses, told.place, told.session, is_kept=told.is_kept))
    if run.status in ("drained", "cancelled") and told.is_kept:
        _say(f"The turn was stopped; go on with: {told.place.command('continue', told.session)}")
    return run.status


def _replayed(replay: Player, run: Run) -> str:
    """Tell of what was asked in vain, also where the canvas has gone on; and of what was not asked any more."""
    for problem in replay.problems:
        if problem != run.error:
            _say(f"ragflow-lg: {problem}")
    if not replay.problems and replay.unused and run.status != "failed":
        _say(f"{replay.unused} recorded answer{' was' if replay.unused == 1 else 's were'} not asked for.")
    return "failed" if replay.problems else run.status


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
