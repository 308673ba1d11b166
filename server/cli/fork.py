"""``ragflow-lg fork``: a new session that begins where another one has been."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from server.cli.options import CanvasFile, Checkpoint, NewSession, Session, SettingsFile
from server.cli.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from checkpoints import Store
    from ragflow_lg.sessions import RunRecord, RunStatus

__all__ = ["fork"]


def fork(
    session: Session,
    at: Annotated[
        str,
        typer.Option(
            "--at",
            help="Checkpoint that history lists, or the beginning of its id. Default: the newest.",
            metavar="CHECKPOINT",
        ),
    ] = "",
    new: NewSession = None,
    canvas: CanvasFile = None,
    settings: SettingsFile = None,
    checkpoint: Checkpoint = "",
) -> None:
    """Make a new session of another one, as it was at a checkpoint; the old one stays as it is.

    Then resume it, continue it, or begin a new turn in it.

    Example: ragflow-lg fork anna --at 1f0b… --as anna-2
    """
    from server.cli.hints import Place
    from server.cli.play import with_store
    from server.settings import load_settings

    file = canvas.resolve() if canvas else None

    def work(store: Store) -> Awaitable[tuple[str, RunStatus]]:
        return _fork(store, session, new or "", at, file)

    target, status = with_store(load_settings(settings), checkpoint, work)
    sys.stdout.write(printable(f"{target}\n"))
    place = Place(checkpoint, settings)
    if status == "waiting":
        sys.stderr.write(printable(f"It waits for an answer: {place.command('resume', target)}\n"))
    elif status == "running":
        sys.stderr.write(printable(f"Something is left to do: {place.command('continue', target)}\n"))


async def _fork(store: Store, session: str, name: str, at: str, file: Path | None) -> tuple[str, RunStatus]:
    from ragflow_lg.branching import fork
    from ragflow_lg.run import status_of, thread_config
    from server.cli.play import canvas_of, free_name
    from server.library import load_canvas

    canvas_id = str(file or await canvas_of(store, session))
    compiled = load_canvas(Path(canvas_id), asks_servers=False).with_saver(store.saver)
    target = name or await free_name(store, f"{session}-fork")
    await fork(compiled, store.saver, session, target, at, leases=store.leases)
    snapshot = await compiled.graph.aget_state(thread_config(compiled, target))
    status = status_of(snapshot)
    await store.runs.put(await _record(store, session, target, canvas_id, status, snapshot))
    return target, status


async def _record(
    store: Store, session: str, target: str, canvas_id: str, status: RunStatus, snapshot: Any
) -> RunRecord:
    """Make the record of a run that has not been played: the session stands as if it had."""
    from ragflow_lg.adapters.system import RandomIds, SystemClock
    from ragflow_lg.ids import session_of_thread, thread_of_session
    from ragflow_lg.sessions import RunRecord

    turn: dict[str, Any] = snapshot.values.get("turn", {})
    now = int(SystemClock().now() * 1000)
    parents = [record.run_id async for record in store.runs.of_session(session)]
    return RunRecord(
        RandomIds().run_id(),
        session_of_thread(thread_of_session(target)),
        target,
        canvas_id,
        turn.get("canvas_hash", ""),
        checkpoint=snapshot.config["configurable"]["checkpoint_id"],
        parent_run=parents[0] if parents else "",
        status=status,
        reason=turn["error"][3] if status == "failed" and "error" in turn else "",
        started_ms=now,
        updated_ms=now,
        ended_ms=now if status in ("succeeded", "failed") else 0,
    )
