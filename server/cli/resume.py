"""``ragflow-lg resume`` and ``continue``: go on with a turn, after answering its forms or after an interruption."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from ragflow_lg.base.errors import AnswerError, ConflictError
from ragflow_lg.server.cli.options import CanvasFile, Inputs, PlayOptions, Session, with_run_options

if TYPE_CHECKING:
    from ragflow_lg.runs.runner import Run, Runner


@with_run_options
def resume(session: Session, options: PlayOptions, inputs: Inputs = None, canvas: CanvasFile = None) -> None:
    """Answer the form that a session is waiting for. On a terminal, prompts for missing fields.

    If several forms are open, COMPONENT@NAME=VALUE answers one of them; COMPONENT is an id or a title. An invalid
    answer leaves the form open. Exit codes: same as `run`.

    Examples:
    ragflow-lg resume anna --input colour=red --input size=42

    ragflow-lg resume anna --input "Shoe size@size=42"
    """
    from ragflow_lg.server.cli.play import play_session

    def begin(runner: Runner, name: str) -> Awaitable[Run]:
        return _resume(runner, name, inputs or [], options)

    play_session(session, begin, canvas_file=canvas, options=options, entries=inputs or [])


async def _resume(runner: Runner, session: str, entries: list[str], options: PlayOptions) -> Run:
    from ragflow_lg.component.node_names import with_node_id
    from ragflow_lg.dsl.forms import form_fields
    from ragflow_lg.server.cli.console import show_forms
    from ragflow_lg.server.cli.form_fields import is_interactive, prompt_fields, read_answers
    from ragflow_lg.server.cli.next_step_hints import answer_hint, next_command

    pauses = await runner.pauses(session)
    if not pauses and await runner.unfinished_checkpoint(session):
        command = next_command(options, "continue", session)
        raise ConflictError(f"The last turn of {session!r} was interrupted. Finish it first: {command}")
    entries = [with_node_id(runner.plan, entry) for entry in entries]
    try:
        answers = read_answers(pauses, entries)
    except AnswerError as problem:
        message = f"{problem} {answer_hint(pauses, entries, options, session)}".strip()
        raise AnswerError({"": message}) from None
    # A form without any answer stays open if another form has one.
    targets = [pause for pause in pauses if pause.id in answers] or pauses
    for pause in targets:
        if len(pauses) > 1 and is_interactive():
            show_forms([pause])
        answers[pause.id] = prompt_fields(form_fields(pause.inputs), answers.get(pause.id, {}))
    wrapped = {id_: {name: {"value": value} for name, value in fields.items()} for id_, fields in answers.items()}
    return runner.resume(session, {id_: fields for id_, fields in wrapped.items() if fields})


@with_run_options
def continue_(session: Session, options: PlayOptions, canvas: CanvasFile = None) -> None:
    """Finish a turn that crashed or was stopped or cancelled.

    Only unfinished nodes run.

    Exit codes: same as `run`.

    Example: ragflow-lg continue anna
    """
    from ragflow_lg.server.cli.play import play_session

    play_session(session, lambda runner, name: runner.continue_(name), canvas_file=canvas, options=options)
