"""``ragflow-lg sessions fork`` and ``rerun``: start a new session from a checkpoint or a node of another session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragflow_lg.server.cli.options import (
    CanvasFile,
    Checkpoint,
    NewSession,
    PlayOptions,
    Session,
    SettingsFile,
    with_run_options,
)
from ragflow_lg.server.cli.session_store import canvas_of, free_name, with_store
from ragflow_lg.server.cli.terminal import print_line, print_note

if TYPE_CHECKING:
    from ragflow_lg.checkpoints import Store
    from ragflow_lg.runs.runner import Run, Runner
    from ragflow_lg.services.sessions import RunStatus


def fork(
    session: Session,
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            help="Checkpoint id from history, or its first characters; or a node, by its id or title, before it ran "
            "last. Default: the newest.",
            metavar="CHECKPOINT|NODE",
        ),
    ] = None,
    new: NewSession = None,
    canvas: CanvasFile = None,
    settings: SettingsFile = None,
    checkpoint: Checkpoint = "",
) -> None:
    """Copy a session, as it was at a checkpoint, to a new session. The old session does not change.

    Then resume or continue the new session, or start a new turn in it.

    Examples:
    ragflow-lg sessions fork anna --at 1f0b… --as anna-2

    ragflow-lg sessions fork anna --at "Price list"
    """
    from ragflow_lg.server.cli.play import next_command

    if at is not None and not at.strip():
        raise typer.BadParameter("it is empty; leave it out to fork the newest checkpoint.", param_hint="--at")
    file = canvas.resolve() if canvas else None

    target, status = with_store(settings, checkpoint, lambda store, _: _fork(store, session, new or "", at or "", file))
    print_line(target)
    options = PlayOptions(checkpoint=checkpoint, settings=settings)
    if status == "waiting":
        print_note(f"It waits for an answer: {next_command(options, 'resume', target)}")
    elif status == "running":
        print_note(f"Its turn is unfinished: {next_command(options, 'continue', target)}")


async def _fork(store: Store, session: str, name: str, at: str, file: Path | None) -> tuple[str, RunStatus]:
    from ragflow_lg.adapters.system_services import RandomIds, SystemClock
    from ragflow_lg.server.assembly.library import load_canvas
    from ragflow_lg.server.runs.stored_sessions import fork_session

    canvas_file = file or await canvas_of(store, session)
    canvas = load_canvas(canvas_file, asks_servers=False)
    target = name or await free_name(store, f"{session}-fork")
    record = await fork_session(
        store, canvas, session, target, at, canvas_id=str(canvas_file), clock=SystemClock(), ids=RandomIds()
    )
    return target, record.status


@with_run_options
def rerun(
    session: Session,
    node: Annotated[str, typer.Option("--from", help="Id or title of the node to start at.", metavar="NODE")],
    options: PlayOptions,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Change a value first: env.x, sys.x or node@output. Repeatable.", metavar="NAME=VALUE"
        ),
    ] = None,
    round_: Annotated[
        int | None, typer.Option("--round", help="Round of the Loop or Iteration around the node, from 0.", min=0)
    ] = None,
    new: NewSession = None,
    canvas: CanvasFile = None,
) -> None:
    """Rerun the last turn from a node, in a new session. The old session does not change.

    --set values are read as JSON if they are valid JSON, otherwise as text. Exit codes: same as `run`.

    Example: ragflow-lg sessions rerun anna --from "Price list" --set env.tone=friendly --as anna-2
    """
    from ragflow_lg.server.cli.play import play_session

    changes = dict(_parse_change(entry) for entry in set_ or [])

    async def begin(runner: Runner, target: str) -> Run:
        run = await runner.rerun(session, target, node, round=round_, changes=changes)
        print_note(f"The new session is {target}")
        return run

    async def name_target(store: Store) -> str:
        return new or await free_name(store, f"{session}-rerun")

    play_session(session, begin, canvas_file=canvas, options=options, name_target=name_target, inputs=changes)


def _parse_change(entry: str) -> tuple[str, Any]:
    name, equals, value = entry.partition("=")
    if not equals or not name:
        raise typer.BadParameter(f"{entry!r} should be NAME=VALUE.", param_hint="--set")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
