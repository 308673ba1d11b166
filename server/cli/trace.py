"""``ragflow-lg sessions trace``: the tool calls of a session's agents, or the whole session as a page."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from ragflow_lg.server.cli.console import call_text
from ragflow_lg.server.cli.options import CanvasFile, Checkpoint, Session, SettingsFile
from ragflow_lg.server.cli.session_store import canvas_of, no_session, with_store
from ragflow_lg.server.cli.terminal import format_time, one_line, print_note, printable, write_output

if TYPE_CHECKING:
    from ragflow_lg.checkpoints import Store
    from ragflow_lg.server.settings import Settings
    from ragflow_lg.services.sessions import RunRecord, Trace


def trace(
    session: Session,
    run: Annotated[str, typer.Option("--run", help="Show only the run with this id, or its first characters.")] = "",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each run as one line of JSON, in RAGFlow's format.")
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Write the session into this file, a page that opens without a server."),
    ] = None,
    canvas: CanvasFile = None,
    settings: SettingsFile = None,
    checkpoint: Checkpoint = "",
) -> None:
    """Show the tool calls of a session's agents.

    Runs are listed oldest first. SQLite stores the calls for a session's last 100 runs. Redis stores calls for ten
    minutes, as RAGFlow does.

    With --html, write a page with the graph, the conversation, the calls and the state at every step. Secrets are taken
    out, and long values are cut.

    Examples:
    ragflow-lg sessions trace anna

    ragflow-lg sessions trace anna --html run.html
    """
    if html is None:
        with_store(settings, checkpoint, lambda store, _: _print_trace(store, session, run, as_json))
        return
    if run or as_json:
        raise typer.BadParameter("it shows the whole session; leave out --run and --json.", param_hint="--html")
    content = with_store(settings, checkpoint, lambda store, config: _build_page(store, session, canvas, config))
    write_output(content, html)
    print_note(f"{html} has {len(content):,} bytes. Open it in a browser.")


async def _build_page(store: Store, session: str, file: Path | None, settings: Settings) -> bytes:
    from ragflow_lg.dsl_compiler.drawing import sketch_source, to_svg
    from ragflow_lg.server.assembly.canvas_files import CanvasFiles, read_canvas
    from ragflow_lg.server.assembly.library import catalog, load_canvas
    from ragflow_lg.server.page.run_file import SessionReader, build_run_file

    path = file or await canvas_of(store, session)
    compiled = load_canvas(path, settings, asks_servers=False)
    files = CanvasFiles(lambda: settings, path, asks_servers=False)
    sketch, _ = sketch_source(read_canvas(path), catalog(), files)
    drawings = {
        theme: to_svg(sketch, direction="down", theme=theme, as_in_editor=sketch.has_positions) if sketch else ""
        for theme in ("light", "dark")
    }
    reader = SessionReader(compiled, store, session, settings.secrets)
    return build_run_file(await reader.read(path.stem, drawings))


async def _print_trace(store: Store, session: str, run_id: str, as_json: bool) -> None:
    records = [record async for record in store.runs.of_session(session)]
    if not records:
        raise no_session(session)
    matches = [record for record in reversed(records) if record.run_id.startswith(run_id)]
    if not matches:
        raise typer.BadParameter(f"The session has no run {run_id!r}.", param_hint="--run")
    is_empty = True
    for record in matches:
        trace = await store.traces.get(record.run_id)
        if not trace:
            continue
        is_empty = False
        frame = {"run_id": record.run_id, "session_id": record.session, "trace": trace}
        lines = [json.dumps(frame, ensure_ascii=False)] if as_json else _lines(record, trace)
        sys.stdout.write("".join(line + "\n" for line in lines))
    if is_empty:
        print_note("There are no stored calls: no agent has called a tool, or the calls have expired.")


def _lines(record: RunRecord, trace: Trace) -> Iterator[str]:
    time = format_time(datetime.fromtimestamp(record.started_ms / 1000, UTC))
    yield printable(f"{record.run_id}  {time}  {record.status}")
    for block in trace:
        for entry in cast("list[dict[str, Any]]", block["trace"]):
            yield from _entry_lines(block, entry)


def _entry_lines(block: dict[str, Any], entry: dict[str, Any]) -> Iterator[str]:
    path = str(entry.get("path", ""))
    agent = path if path and not path.startswith("-->") else f"{block.get('component_id', '')}{path}"
    seconds = entry.get("elapsed_time")
    time = f"  {seconds:.2f} s" if isinstance(seconds, float | int) else ""
    source = "  (stored result)" if entry.get("is_replayed") else ""
    call = call_text(str(entry.get("title") or entry.get("tool_name", "")), entry.get("arguments"))
    yield f"  {one_line(agent)}: {call}{time}{source}"
    yield f"    {one_line(entry.get('result'))}"
