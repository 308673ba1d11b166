"""``ragflow-lg run``: play one turn of a canvas."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragflow_lg.server.cli.options import (
    Attachments,
    BeginInputs,
    Checkpoint,
    Conversation,
    EventsOption,
    Model,
    Record,
    Replay,
    ReplayMode,
    ReplayModeOption,
    SettingsFile,
    TraceOption,
)
from ragflow_lg.server.cli.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragflow_lg.checkpoints import Store
    from ragflow_lg.component.state import TurnRequest
    from ragflow_lg.dsl.forms import FormField
    from ragflow_lg.runs.pauses import Pause
    from ragflow_lg.runs.runner import Run, Runner
    from ragflow_lg.server.cli.next_step_hints import Place

__all__ = ["run"]


def run(
    file: Annotated[Path, typer.Argument(help="Canvas file.", metavar="FILE")],
    query: Annotated[str, typer.Argument(help="The question; - reads it from standard input.", metavar="[QUERY]")] = "",
    inputs: BeginInputs = None,
    files: Attachments = None,
    session: Conversation = None,
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

    Exit code 0: it ran, or waits for an answer. 1: it failed or was stopped. 2: it cannot be run, or the command is
    wrong.

    Examples:
    ragflow-lg run canvas.json "Where is my parcel?" --model demo

    ragflow-lg run form.json --input city=Rome --input days=3

    ragflow-lg run chat.json "What is in it?" --file report.md --session anna

    ragflow-lg run chat.json "Hello" --record hello.jsonl, and from then on without a model: --replay hello.jsonl
    """
    from ragflow_lg.server.assembly.library import load_canvas
    from ragflow_lg.server.cli.attachments import read_attachments
    from ragflow_lg.server.cli.next_step_hints import Place
    from ragflow_lg.server.cli.play import TapeOptions, play_canvas
    from ragflow_lg.server.settings import load_settings

    if checkpoint and not session:
        raise typer.BadParameter("It keeps sessions; name one with --session.", param_hint="--checkpoint")
    loaded = load_settings(settings)
    canvas = load_canvas(file, loaded, asks_servers=replay is None)
    text = sys.stdin.read().strip() if query == "-" else query
    fields = _fields(canvas.plan.form, inputs or [], text)
    request: TurnRequest = {"query": text, "inputs": {name: {"value": value} for name, value in fields.items()}}
    request["files"] = read_attachments(files or [])
    place, canvas_id = Place(checkpoint, settings, model), str(file.resolve())

    play_canvas(
        canvas,
        _beginning(request, place, has_session=bool(session)),
        session=session or "",
        settings=loaded,
        place=place,
        inputs=fields,
        tapes=TapeOptions(record, replay, replay_mode),
        canvas_id=canvas_id,
        events=events,
        has_trace=trace,
        before=_refuse_other(session, canvas_id, canvas.plan.canvas_hash, place) if session else None,
    )


def _fields(form: Sequence[FormField], given: Sequence[str], query: str) -> dict[str, Any]:
    """Read the fields of Begin's form, and on a terminal ask for the others; a query alone is the only field."""
    from ragflow_lg.server.cli.form_fields import ask_fields, check_fields, is_asked, read_fields

    takes_query = bool(query) and len(form) == 1
    fields = read_fields(form, given, needs_all=not takes_query and not is_asked())
    if not takes_query:
        fields = ask_fields(form, fields)
        check_fields(form, fields)
    return fields


def _beginning(request: TurnRequest, place: Place, *, has_session: bool) -> Callable[[Runner, str], Awaitable[Run]]:
    async def begin(runner: Runner, name: str) -> Run:
        if has_session and (pauses := await runner.pauses(name)):
            sys.stderr.write(printable(_told(pauses, request, place, name) + "\n"))
        return runner.start(name, request)

    return begin


def _refuse_other(session: str, canvas_id: str, canvas_hash: str, place: Place) -> Callable[[Store], Awaitable[None]]:
    """Refuse to begin a turn of another canvas where the session waits: its form would be lost without a word."""
    from ragflow_lg.base.errors import ConflictError
    from ragflow_lg.server.runs.stored_sessions import newest_run

    async def check(store: Store) -> None:
        newest = await newest_run(store, session)
        if newest is None or newest.status != "waiting" or canvas_hash == newest.canvas_hash:
            return
        if newest.canvas_id not in ("", canvas_id):
            raise ConflictError(
                f"The session {session!r} waits for an answer to {newest.canvas_id}; name another session, or\n"
                f"  answer it: {place.command('resume', session)}\n"
                f"  give it up: {place.command('cancel', session)}"
            )

    return check


def _told(pauses: Sequence[Pause], request: TurnRequest, place: Place, session: str) -> str:
    """Say what becomes of a request to a session that waits: it is no new turn."""
    query, names = request.get("query"), [f"{pause.node}@{name}" for pause in pauses for name in pause.inputs]
    what = ""
    if query and not request.get("inputs"):
        what = f" {query!r:.60} is taken as {names[0]}." if len(names) == 1 else f" {query!r:.60} was not used."
    how = place.command("cancel", session)
    return f"The session {session!r} waits for an answer.{what} To begin a new turn, give it up with: {how}"
