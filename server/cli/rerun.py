"""``ragflow-lg rerun``: run the last turn of a session again from a node."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragflow_lg.server.cli.options import (
    CanvasFile,
    Checkpoint,
    EventsOption,
    Model,
    NewSession,
    Record,
    Replay,
    ReplayMode,
    ReplayModeOption,
    Session,
    SettingsFile,
    TraceOption,
)
from ragflow_lg.server.cli.terminal import printable

if TYPE_CHECKING:
    from ragflow_lg.checkpoints import Store
    from ragflow_lg.runs.runner import Run, Runner

__all__ = ["rerun"]


def rerun(
    session: Session,
    node: Annotated[str, typer.Option("--from", help="Id of the node to begin with.", metavar="NODE")],
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="A value to change before: env.x, sys.x or node@output.", metavar="NAME=VALUE"),
    ] = None,
    round_: Annotated[
        int | None, typer.Option("--round", help="Round of the Loop or Iteration around the node, from 0.", min=0)
    ] = None,
    new: NewSession = None,
    canvas: CanvasFile = None,
    model: Model = "",
    record: Record = None,
    replay: Replay = None,
    replay_mode: ReplayModeOption = ReplayMode.STRICT,
    settings: SettingsFile = None,
    checkpoint: Checkpoint = "",
    events: EventsOption = None,
    trace: TraceOption = False,
) -> None:
    """Run the last turn again from a node, as a new session; the old one stays as it is.

    A value is read as JSON where it is some, else as text. Exit codes are those of run.

    Example: ragflow-lg rerun anna --from Message:Answer --set env.tone=friendly --as anna-2
    """
    from ragflow_lg.server.cli.next_step_hints import Place
    from ragflow_lg.server.cli.play import TapeOptions, free_name, play_session

    changes = dict(_change(entry) for entry in set_ or [])

    async def begin(runner: Runner, target: str) -> Run:
        run = await runner.rerun(session, target, node, round=round_, changes=changes)
        sys.stderr.write(printable(f"The new session is {target}\n"))
        return run

    async def target(store: Store) -> str:
        return new or await free_name(store, f"{session}-rerun")

    play_session(
        session,
        begin,
        canvas_file=canvas,
        place=Place(checkpoint, settings, model),
        tapes=TapeOptions(record, replay, replay_mode),
        events=events,
        has_trace=trace,
        target=target,
        inputs=changes,
    )


def _change(entry: str) -> tuple[str, Any]:
    name, equals, value = entry.partition("=")
    if not equals or not name:
        raise typer.BadParameter(f"{entry!r} should be NAME=VALUE.", param_hint="--set")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
