"""``ragflow-lg run``, ``resume`` and ``continue``: play one turn of a canvas."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragflow_lg.base.errors import AnswerError, ConflictError
from ragflow_lg.server.cli.options import (
    Attachments,
    CanvasFile,
    Conversation,
    Inputs,
    PlayOptions,
    Session,
    with_run_options,
)
from ragflow_lg.server.cli.terminal import format_command, print_note

if TYPE_CHECKING:
    from ragflow_lg.checkpoints import Store
    from ragflow_lg.component.plan import Plan
    from ragflow_lg.component.state import TurnRequest
    from ragflow_lg.dsl.forms import FormField
    from ragflow_lg.runs.pauses import Pause
    from ragflow_lg.runs.runner import Run, Runner
    from ragflow_lg.server.settings import Settings


@with_run_options
def run(
    file: Annotated[Path, typer.Argument(help="Canvas file.", metavar="FILE")],
    options: PlayOptions,
    query: Annotated[
        str, typer.Argument(help="The question, or - to read it from standard input.", metavar="[QUERY]")
    ] = "",
    inputs: Inputs = None,
    files: Attachments = None,
    session: Conversation = None,
) -> None:
    """Run one turn of a canvas and stream its answer.

    Exit code 0: the turn succeeded, or is waiting for an answer. 1: it failed or was stopped. 2: the canvas cannot run,
    or the command line is invalid.

    Examples:
    ragflow-lg run canvas.json "Where is my parcel?" --model demo

    ragflow-lg run form.json --input city=Rome --input days=3

    ragflow-lg run chat.json "What is in it?" --file report.md --session anna

    ragflow-lg run prices.json --input sheet=@sales.csv

    ragflow-lg run chat.json "Hello" --record hello.jsonl   (later, without a model: --replay hello.jsonl)
    """
    from ragflow_lg.checkpoints.store_url import store_kind
    from ragflow_lg.server.assembly.canvas_needs import describe_missing
    from ragflow_lg.server.assembly.library import load_canvas
    from ragflow_lg.server.cli.form_fields import read_attachments
    from ragflow_lg.server.cli.play import play_canvas
    from ragflow_lg.server.settings import load_settings

    if options.checkpoint:
        store_kind(options.checkpoint)
    if options.checkpoint and not session:
        raise typer.BadParameter("A store needs a session: name one with --session.", param_hint="--checkpoint")
    settings = load_settings(options.settings)
    canvas = load_canvas(file, settings, model=options.model or "", asks_servers=options.replay is None)
    _report_upgrade(file)
    if missing := "" if options.replay else describe_missing(canvas.plan, settings, has_model=bool(options.model)):
        print_note(missing)
    text = sys.stdin.read().strip() if query == "-" else query or _ask_question(canvas.plan)
    fields = _fill_form(canvas.plan.form, inputs or [], text)
    request: TurnRequest = {"query": text, "inputs": {name: {"value": value} for name, value in fields.items()}}
    request["files"] = read_attachments(files or [])
    canvas_id = str(file.resolve())
    if session:
        options = _look_up_open_turn(session, canvas_id, canvas.plan.canvas_hash, settings, options)
    play_canvas(
        canvas,
        _start_turn(request, options, has_session=bool(session)),
        session=session or "",
        settings=settings,
        options=options,
        inputs=fields,
        canvas_id=canvas_id,
        reported=missing,
    )


def _ask_question(plan: Plan) -> str:
    """Return the question that a canvas needs and the command line lacks: what the user types on a terminal."""
    from ragflow_lg.server.cli.form_fields import is_interactive

    reads = any(reference.text == "sys.query" for node in plan.nodes.values() for reference, _ in node.references)
    if not reads or plan.form:
        return ""
    if is_interactive():
        return str(typer.prompt("Question", default="", show_default=False, err=True))
    print_note('No question was given, so the canvas plays with an empty one: run FILE "QUESTION", or - to read it.')
    return ""


def _fill_form(form: Sequence[FormField], entries: Sequence[str], query: str) -> dict[str, Any]:
    """Read the fields of Begin's form, and prompt for missing fields on a terminal.

    A query fills a form that has only one field, so no prompt follows.
    """
    from ragflow_lg.server.cli.form_fields import check_fields, is_interactive, prompt_fields, read_fields

    is_filled_by_query = bool(query) and len(form) == 1
    fields = read_fields(form, entries, needs_all=not is_filled_by_query and not is_interactive())
    if not is_filled_by_query:
        fields = prompt_fields(form, fields)
        check_fields(form, fields)
    return fields


def _start_turn(
    request: TurnRequest, options: PlayOptions, *, has_session: bool
) -> Callable[[Runner, str], Awaitable[Run]]:
    async def begin(runner: Runner, name: str) -> Run:
        if has_session and (pauses := await runner.pauses(name)):
            print_note(_waiting_note(pauses, request, options, name))
        elif has_session and (checkpoint := await runner.unfinished_checkpoint(name)):
            print_note(_unfinished_note(checkpoint, options, name))
        return runner.start(name, request)

    return begin


def _look_up_open_turn(
    session: str, canvas_id: str, canvas_hash: str, settings: Settings, options: PlayOptions
) -> PlayOptions:
    """Return options with the model of the turn that waits for an answer, which this run continues.

    A different canvas is refused, because the form would be lost.
    """
    from ragflow_lg.runs.runner import newest_run
    from ragflow_lg.server.cli.play import keep_model, next_command
    from ragflow_lg.server.cli.session_store import use_store

    async def look_up(store: Store) -> PlayOptions:
        newest = await newest_run(store, session)
        if newest is None or newest.status != "waiting":
            return options
        if canvas_hash != newest.canvas_hash and newest.canvas_id not in ("", canvas_id):
            raise ConflictError(
                f"The session {session!r} waits for an answer to {newest.canvas_id}. Use another session, or\n"
                f"  answer it: {next_command(options, 'resume', session)}\n"
                f"  cancel it: {next_command(options, 'sessions cancel', session)}"
            )
        return await keep_model(store, session, options)

    return use_store(settings, options.checkpoint, look_up, may_create=True)


def _report_upgrade(file: Path) -> None:
    """Report on standard error that a canvas from before RAGFlow 0.20 was upgraded in memory."""
    from ragflow_lg.dsl_compiler import upgrade_source
    from ragflow_lg.server.assembly.library import catalog, read_canvas

    content = read_canvas(file)
    if b'"Answer"' in content and upgrade_source(content, catalog()).changes:
        sys.stderr.write(
            "The canvas was made before RAGFlow 0.20 and was upgraded in memory. To see what changed, and to save it:\n"
            f"  {format_command('canvas', 'upgrade', str(file), '-o', 'NEW.json')}\n"
        )


def _unfinished_note(checkpoint: str, options: PlayOptions, session: str) -> str:
    """Return a note that a new turn takes the place of an interrupted one, with the command to finish a copy of it."""
    from ragflow_lg.server.cli.play import next_command

    return (
        f"The last turn of {session!r} was interrupted; `continue` would have finished it. This run starts a new turn."
        f" To finish the old one in a copy: {next_command(options, 'sessions fork', session, '--at', checkpoint)}"
    )


def _waiting_note(pauses: Sequence[Pause], request: TurnRequest, options: PlayOptions, session: str) -> str:
    """Return a note on how a waiting session handles a request, which does not start a new turn."""
    from ragflow_lg.server.cli.play import next_command

    query, names = request.get("query"), [f"{pause.node}@{name}" for pause in pauses for name in pause.inputs]
    use = ""
    if query and not request.get("inputs"):
        use = f" {query!r:.60} is used as {names[0]}." if len(names) == 1 else f" {query!r:.60} is ignored."
    command = next_command(options, "sessions cancel", session)
    return f"The session {session!r} waits for an answer.{use} To start a new turn, cancel this one: {command}"


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
    from ragflow_lg.server.cli.play import answer_hint, next_command

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
