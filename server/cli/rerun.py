"""``ragflow-lg rerun``: run the last turn of a session again, starting at a node."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragflow_lg.server.cli.options import CanvasFile, NewSession, RunOptions, Session, with_run_options
from ragflow_lg.server.cli.terminal import print_note

if TYPE_CHECKING:
    from ragflow_lg.checkpoints import Store
    from ragflow_lg.runs.runner import Run, Runner


@with_run_options
def rerun(
    session: Session,
    node: Annotated[str, typer.Option("--from", help="Id or title of the node to start at.", metavar="NODE")],
    options: RunOptions,
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

    Example: ragflow-lg rerun anna --from "Price list" --set env.tone=friendly --as anna-2
    """
    from ragflow_lg.server.cli.play import free_name, play_session

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
