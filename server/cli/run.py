"""``ragflow-lg run``: play one turn of a canvas."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from server.cli.options import Checkpoint, EventsOption, Model, SettingsFile, named

if TYPE_CHECKING:
    from ragflow_lg.state import TurnRequest

__all__ = ["run"]


def run(
    file: Annotated[Path, typer.Argument(help="Canvas file.", metavar="FILE")],
    query: Annotated[str, typer.Argument(help="The question; - reads it from standard input.", metavar="[QUERY]")] = "",
    inputs: Annotated[
        list[str] | None, typer.Option("--input", "-i", help="A field of Begin's form.", metavar="NAME=VALUE")
    ] = None,
    session: Annotated[
        str | None,
        typer.Option("--session", "-s", help="Continue (or begin) the conversation of this name.", callback=named),
    ] = None,
    model: Model = "",
    settings: SettingsFile = None,
    checkpoint: Checkpoint = "",
    events: EventsOption = None,
) -> None:
    """Run one turn of a canvas and show its answer as it comes.

    Exit code 0: it ran, or waits for an answer. 1: it failed or was stopped. 2: it cannot be run, or the command is
    wrong.

    Examples:
    ragflow-lg run canvas.json "Where is my parcel?" --model demo

    ragflow-lg run form.json --input city=Rome --input days=3

    ragflow-lg run chat.json "And then?" --session anna
    """
    from server.cli.fields import ask_fields, check_fields, is_asked, read_fields
    from server.cli.hints import Place
    from server.cli.play import play_canvas
    from server.library import load_canvas
    from server.settings import load_settings

    if checkpoint and not session:
        raise typer.BadParameter("It keeps sessions; name one with --session.", param_hint="--checkpoint")
    loaded = load_settings(settings)
    canvas = load_canvas(file, loaded)
    text = sys.stdin.read().strip() if query == "-" else query
    takes_query = bool(text) and len(canvas.plan.form) == 1
    fields = read_fields(canvas.plan.form, inputs or [], needs_all=not takes_query and not is_asked())
    if not takes_query:
        fields = ask_fields(canvas.plan.form, fields)
        check_fields(canvas.plan.form, fields)
    request: TurnRequest = {"query": text, "inputs": {name: {"value": value} for name, value in fields.items()}}
    play_canvas(
        canvas,
        lambda runner, name: runner.start(name, request),
        session=session or "",
        settings=loaded,
        place=Place(checkpoint, settings, model),
        canvas_id=str(file.resolve()),
        events=events,
    )
