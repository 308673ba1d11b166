"""``ragflow-lg resume``: answer what a session waits for."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

import typer

from server.cli.options import (
    CanvasFile,
    Checkpoint,
    EventsOption,
    Inputs,
    Model,
    Record,
    Replay,
    ReplayMode,
    ReplayModeOption,
    Session,
    SettingsFile,
    TraceOption,
)
from server.cli.terminal import shown_command

if TYPE_CHECKING:
    from ragflow_lg.runner import Run, Runner

__all__ = ["resume"]


def resume(
    session: Session,
    inputs: Inputs = None,
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
    """Answer the form that a session waits for; on a terminal it asks for what is missing.

    Of several open forms one is answered by the id of its component. A wrong answer leaves the form open. Exit codes
    are those of run.

    Examples:
    ragflow-lg resume anna --input colour=red --input size=42

    ragflow-lg resume anna --input UserFillUp:Size@size=42
    """
    from server.cli.play import TapeOptions, play_session

    def begin(runner: Runner, name: str) -> Awaitable[Run]:
        return _answered(runner, name, inputs or [])

    play_session(
        session,
        begin,
        canvas_file=canvas,
        settings_file=settings,
        checkpoint=checkpoint,
        model=model,
        tapes=TapeOptions(record, replay, replay_mode),
        events=events,
        has_trace=trace,
    )


async def _answered(runner: Runner, session: str, given: list[str]) -> Run:
    from ragflow_lg.forms import form_fields
    from server.cli.console import show_forms
    from server.cli.fields import ask_fields, is_asked, read_answers

    pauses = await runner.pauses(session)
    try:
        answers = read_answers(pauses, given)
    except typer.BadParameter as problem:
        how = shown_command("resume", session, "--input", "NAME=VALUE")
        open_ = f" The form is still open; answer it with: {how}" if pauses else ""
        raise typer.BadParameter(f"{problem.message}{open_}", param_hint=problem.param_hint) from None
    # A form of which nothing is given stays open if others are met.
    met = [pause for pause in pauses if pause.id in answers] or pauses
    for pause in met:
        if len(pauses) > 1 and is_asked():
            show_forms([pause])
        answers[pause.id] = ask_fields(form_fields(pause.inputs), answers.get(pause.id, {}))
    wrapped = {id_: {name: {"value": value} for name, value in fields.items()} for id_, fields in answers.items()}
    return runner.resume(session, {id_: fields for id_, fields in wrapped.items() if fields})
