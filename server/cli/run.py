"""``ragflow-lg run``: play one turn of a canvas."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from server.cli.options import (
    Checkpoint,
    EventsOption,
    Model,
    Record,
    Replay,
    ReplayMode,
    ReplayModeOption,
    SettingsFile,
    TraceOption,
    named,
)

if TYPE_CHECKING:
    from ragflow_lg.forms import FormField
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
    record: Record = None,
    replay: Replay = None,
    replay_mode: ReplayModeOption = ReplayMode.STRICT,
    settings: SettingsFile = None,
    checkpoint: Checkpoint = "",
    events: EventsOption = None,
    trace: TraceOption = False,
) -> None:
    """Run one turn of a canvas and show its answer as it comes.

    Exit code 0: it ran. 1: it failed or was stopped. 2: it cannot be run, or the command is wrong.

    Examples:
    ragflow-lg run canvas.json "Where is my parcel?" --model demo

    ragflow-lg run form.json --input city=Rome --input days=3

    ragflow-lg run chat.json "And then?" --session anna

    ragflow-lg run chat.json "Hello" --record hello.jsonl, and from then on without a model: --replay hello.jsonl
    """
    from server.cli.play import TapeOptions, play_canvas
    from server.library import load_canvas
    from server.settings import load_settings

    if checkpoint and not session:
        raise typer.BadParameter("It keeps sessions; name one with --session.", param_hint="--checkpoint")
    loaded = load_settings(settings)
    canvas = load_canvas(file, loaded, asks_servers=replay is None)
    text = sys.stdin.read().strip() if query == "-" else query
    fields = _fields(canvas.plan.form, inputs or [], text)
    request: TurnRequest = {"query": text, "inputs": {name: {"value": value} for name, value in fields.items()}}
    play_canvas(
        canvas,
        lambda runner, name: runner.start(name, request),
        session=session or "",
        inputs=fields,
        settings=loaded,
        checkpoint=checkpoint,
        model=model,
        tapes=TapeOptions(record, replay, replay_mode),
        canvas_id=str(file.resolve()),
        events=events,
        has_trace=trace,
    )


def _fields(form: Sequence[FormField], given: Sequence[str], text: str) -> dict[str, Any]:
    """Give the fields of Begin's form; a question takes the place of the only one."""
    from server.cli.fields import ask_fields, check_fields, read_fields

    fields = read_fields(form, given)
    if text and len(form) == 1:
        return fields
    fields = ask_fields(form, fields)
    check_fields(form, fields)
    return fields
