"""``ragflow-lg run``: play one turn of a canvas."""

from __future__ import annotations

import json
import signal
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from server.cli.terminal import printable

if TYPE_CHECKING:
    from ragflow_lg.compiled import CompiledCanvas
    from ragflow_lg.runner import Run
    from ragflow_lg.state import TurnRequest
    from server.settings import Settings

__all__ = ["run"]


class Events(StrEnum):
    """How to write what happens."""

    JSON = "json"
    PRETTY = "pretty"


def run(
    file: Annotated[Path, typer.Argument(help="Canvas file.", metavar="FILE")],
    query: Annotated[str, typer.Argument(help="The question; - reads it from standard input.", metavar="[QUERY]")] = "",
    inputs: Annotated[
        list[str] | None, typer.Option("--input", "-i", help="A field of Begin's form.", metavar="NAME=VALUE")
    ] = None,
    session: Annotated[
        str, typer.Option("--session", "-s", help="Continue (or begin) the conversation of this name.")
    ] = "",
    model: Annotated[
        str, typer.Option("--model", "-m", help="Ask this model in place of every other; demo needs no key.")
    ] = "",
    settings: Annotated[Path | None, typer.Option("--settings", help="Settings file (TOML).")] = None,
    checkpoint: Annotated[
        str, typer.Option("--checkpoint", help="Where sessions are kept: memory:// or sqlite:///PATH.")
    ] = "",
    events: Annotated[
        Events | None,
        typer.Option("--events", "-e", help="json: one event a line. pretty: for people. Default: by terminal."),
    ] = None,
) -> None:
    """Run one turn of a canvas and show its answer as it comes.

    Exit code 0: it ran. 1: it failed or was stopped. 2: it cannot be run, or the command is wrong.

    Examples:
    ragflow-lg run canvas.json "Where is my parcel?" --model demo

    ragflow-lg run form.json --input city=Rome --input days=3

    ragflow-lg run chat.json "And then?" --session anna
    """
    import asyncio

    from server.library import load_canvas
    from server.settings import load_settings

    if checkpoint and not session:
        raise typer.BadParameter("It keeps sessions; name one with --session.", param_hint="--checkpoint")
    loaded = load_settings(settings)
    canvas = load_canvas(file)
    text = sys.stdin.read().strip() if query == "-" else query
    request: TurnRequest = {"query": text, "inputs": _fields(canvas, inputs or [], text)}
    is_pretty = events is Events.PRETTY or (events is None and sys.stdout.isatty())
    status = asyncio.run(_play(canvas, request, loaded, session, model, checkpoint, is_pretty))
    raise typer.Exit(0 if status == "succeeded" else 1)


def _fields(canvas: CompiledCanvas, given: list[str], query: str) -> dict[str, Any]:
    """Read ``NAME=VALUE``; on a terminal ask for fields of Begin's form that are missing."""
    fields: dict[str, Any] = {}
    for entry in given:
        name, equals, value = entry.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{entry!r} should be NAME=VALUE.", param_hint="--input")
        fields[name] = {"value": _typed(canvas, name, value)}
    missing = [f for f in canvas.plan.form if f.name not in fields and not f.is_optional]
    takes_query = bool(query) and len(canvas.plan.form) == 1
    if missing and not takes_query and sys.stdin.isatty() and sys.stdout.isatty():
        for field in missing:
            choices = f" ({', '.join(map(str, field.options))})" if field.options else ""
            answer = typer.prompt(f"{field.label}{choices}", default=field.value if field.value is not None else "")
            fields[field.name] = {"value": _typed(canvas, field.name, str(answer))}
    return fields


def _typed(canvas: CompiledCanvas, name: str, value: str) -> Any:
    """Read a value as the form declares it."""
    kind = next((f.type for f in canvas.plan.form if f.name == name), "line").lower()
    try:
        if kind in ("integer", "number"):
            return int(value) if kind == "integer" else float(value)
        if kind == "object":
            return json.loads(value)
    except ValueError:
        raise typer.BadParameter(f"{name} should be {kind}, not {value!r}.", param_hint="--input") from None
    if kind == "boolean":
        if value.lower() not in ("true", "false", "yes", "no", "1", "0"):
            raise typer.BadParameter(f"{name} should be true or false, not {value!r}.", param_hint="--input")
        return value.lower() in ("true", "yes", "1")
    return value


async def _play(
    canvas: CompiledCanvas,
    request: TurnRequest,
    settings: Settings,
    session: str,
    model: str,
    checkpoint: str,
    is_pretty: bool,
) -> str:
    from ragflow_lg.errors import RunError
    from ragflow_lg.runner import Runner
    from server.cli.console import show
    from server.library import open_services

    store: AbstractAsyncContextManager[Any] = nullcontext()
    if session:
        from checkpoints import open_saver

        store = open_saver(checkpoint or settings.checkpoints)
    async with store as saver, open_services(settings, model=model) as services:
        runner = Runner(canvas, services, saver=saver, event_limit=settings.run.event_limit)
        turn = runner.start(session or uuid.uuid4().hex, request)  # noqa: TID251 - a session nobody comes back to
        _cancel_on_interrupt(turn)
        try:
            await (show(canvas.plan, turn) if is_pretty else _write_lines(turn))
        except RunError as error:
            sys.stderr.write(printable(f"ragflow-lg: {error}\n"))
        if turn.status == "failed" and not is_pretty and turn.error:
            where = f"{turn.failed_node}: " if turn.failed_node else ""
            sys.stderr.write(printable(f"ragflow-lg: {where}{turn.error}\n"))
        return turn.status


def _cancel_on_interrupt(turn: Run) -> None:
    """Let Ctrl-C stop the turn in an orderly way; a second one ends the program."""
    from asyncio import get_running_loop

    def stop() -> None:
        get_running_loop().remove_signal_handler(signal.SIGINT)
        turn.cancel()

    get_running_loop().add_signal_handler(signal.SIGINT, stop)


async def _write_lines(turn: Run) -> None:
    events: AsyncIterator[Any] = aiter(turn)
    async for event in events:
        sys.stdout.write(json.dumps(turn.envelope.wrap(event), ensure_ascii=False) + "\n")
        sys.stdout.flush()
