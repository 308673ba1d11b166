"""``ragflow-lg resume``: answer what a session waits for."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from server.cli.options import CanvasFile, Checkpoint, EventsOption, Inputs, Model, Session, SettingsFile

if TYPE_CHECKING:
    from ragflow_lg.runner import Run, Runner

__all__ = ["resume"]


def resume(
    session: Session,
    inputs: Inputs = None,
    canvas: CanvasFile = None,
    model: Model = "",
    settings: SettingsFile = None,
    checkpoint: Checkpoint = "",
    events: EventsOption = None,
) -> None:
    """Answer the form that a session waits for; on a terminal it asks for what is missing.

    A wrong answer leaves the form open. Exit codes are those of run.

    Example: ragflow-lg resume anna --input colour=red --input size=42
    """
    from server.cli.play import play_session

    def begin(runner: Runner, name: str) -> Awaitable[Run]:
        return _answered(runner, name, inputs or [])

    play_session(
        session,
        begin,
        canvas_file=canvas,
        settings_file=settings,
        checkpoint=checkpoint,
        model=model,
        events=events,
    )


async def _answered(runner: Runner, session: str, given: list[str]) -> Run:
    from ragflow_lg.forms import form_fields
    from server.cli.fields import ask_fields, read_fields

    form = [field for pause in await runner.pauses(session) for field in form_fields(pause.inputs)]
    answer: dict[str, Any] = ask_fields(form, read_fields(form, given))
    return runner.resume(session, {name: {"value": value} for name, value in answer.items()})
