"""``ragflow-lg resume``: answer what a session waits for."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

import typer

from ragflow_lg.server.cli.options import (
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

if TYPE_CHECKING:
    from ragflow_lg.runs.runner import Run, Runner
    from ragflow_lg.server.cli.next_step_hints import Place

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
    from ragflow_lg.server.cli.next_step_hints import Place
    from ragflow_lg.server.cli.play import TapeOptions, play_session

    place = Place(checkpoint, settings, model)

    def begin(runner: Runner, name: str) -> Awaitable[Run]:
        return _answered(runner, name, inputs or [], place)

    play_session(
        session,
        begin,
        canvas_file=canvas,
        place=place,
        tapes=TapeOptions(record, replay, replay_mode),
        events=events,
        has_trace=trace,
        given=inputs or [],
    )


async def _answered(runner: Runner, session: str, given: list[str], place: Place) -> Run:
    from ragflow_lg.dsl.forms import form_fields
    from ragflow_lg.server.cli.console import show_forms
    from ragflow_lg.server.cli.form_fields import ask_fields, is_asked, read_answers
    from ragflow_lg.server.cli.next_step_hints import how_to_answer

    pauses = await runner.pauses(session)
    try:
        answers = read_answers(pauses, given)
    except typer.BadParameter as problem:
        told = f"{problem.message} {how_to_answer(pauses, given, place, session)}".strip()
        raise typer.BadParameter(told, param_hint=problem.param_hint) from None
    # A form of which nothing is given stays open if others are met.
    met = [pause for pause in pauses if pause.id in answers] or pauses
    for pause in met:
        if len(pauses) > 1 and is_asked():
            show_forms([pause])
        answers[pause.id] = ask_fields(form_fields(pause.inputs), answers.get(pause.id, {}))
    wrapped = {id_: {name: {"value": value} for name, value in fields.items()} for id_, fields in answers.items()}
    return runner.resume(session, {id_: fields for id_, fields in wrapped.items() if fields})
