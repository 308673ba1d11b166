"""``ragflow-lg trace``: what the agents of a session have called."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragflow_lg.server.cli.agent_lines import brief, call_text
from ragflow_lg.server.cli.options import Checkpoint, Session, SettingsFile
from ragflow_lg.server.cli.terminal import printable, shown_time

if TYPE_CHECKING:
    from ragflow_lg.checkpoints import Store
    from ragflow_lg.services.sessions import RunRecord, Trace

__all__ = ["trace"]


def trace(
    session: Session,
    run: Annotated[str, typer.Option("--run", help="Only the run of this id; its beginning is enough.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="One run a line, in RAGFlow's form.")] = False,
    settings: SettingsFile = None,
    checkpoint: Checkpoint = "",
) -> None:
    """Show which tools the agents of a session have called, run by run, the oldest first.

    SQLite keeps this of the last 100 runs of a session, Redis for ten minutes, as RAGFlow does.

    Example: ragflow-lg trace anna
    """
    from ragflow_lg.server.cli.play import with_store
    from ragflow_lg.server.settings import load_settings

    with_store(load_settings(settings), checkpoint, lambda store: _trace(store, session, run, as_json))


async def _trace(store: Store, session: str, run_id: str, as_json: bool) -> None:
    from ragflow_lg.server.cli.play import no_session

    records = [record async for record in store.runs.of_session(session)]
    if not records:
        raise no_session(session)
    chosen = [record for record in reversed(records) if record.run_id.startswith(run_id)]
    if not chosen:
        raise typer.BadParameter(f"The session has no run {run_id!r}.", param_hint="--run")
    is_empty = True
    for record in chosen:
        found = await store.traces.get(record.run_id)
        if not found:
            continue
        is_empty = False
        lines = [_json_line(record, found)] if as_json else _lines(record, found)
        sys.stdout.write("".join(line + "\n" for line in lines))
    if is_empty:
        sys.stderr.write("Nothing is kept: no agent has called a tool, or it was too long ago.\n")


def _json_line(record: RunRecord, found: Trace) -> str:
    frame = {"run_id": record.run_id, "session_id": record.session, "trace": found}
    return json.dumps(frame, ensure_ascii=False)


def _lines(record: RunRecord, found: Trace) -> Iterator[str]:
    when = shown_time(datetime.fromtimestamp(record.started_ms / 1000, UTC))
    yield printable(f"{record.run_id}  {when}  {record.status}")
    for block in found:
        for entry in block["trace"]:
            yield from _entry_lines(block, entry)


def _entry_lines(block: dict[str, Any], entry: dict[str, Any]) -> Iterator[str]:
    path = str(entry.get("path", ""))
    who = path if path and not path.startswith("-->") else f"{block.get('component_id', '')}{path}"
    seconds = entry.get("elapsed_time")
    took = f"  {seconds:.2f} s" if isinstance(seconds, float | int) else ""
    again = "  (from before)" if entry.get("is_replayed") else ""
    yield f"  {brief(who)}: {call_text(str(entry.get('tool_name', '')), entry.get('arguments'))}{took}{again}"
    yield f"    {brief(entry.get('result'))}"
