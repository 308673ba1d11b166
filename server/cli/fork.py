"""``ragflow-lg fork``: a new session that begins where another one has been."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from server.cli.options import CanvasFile, Checkpoint, NewSession, Session, SettingsFile

if TYPE_CHECKING:
    from checkpoints import Store

__all__ = ["fork"]


def fork(
    session: Session,
    at: Annotated[
        str, typer.Option("--at", help="Checkpoint, as history lists them. Default: the newest.", metavar="CHECKPOINT")
    ] = "",
    new: NewSession = "",
    canvas: CanvasFile = None,
    settings: SettingsFile = None,
    checkpoint: Checkpoint = "",
) -> None:
    """Make a new session of another one, as it was at a checkpoint; the old one stays as it is.

    Then resume it, continue it, or begin a new turn in it.

    Example: ragflow-lg fork anna --at 1f0b… --as anna-2
    """
    from server.cli.play import with_store
    from server.settings import load_settings

    target = new or f"{session}-fork"
    file = canvas.resolve() if canvas else None
    with_store(load_settings(settings), checkpoint, lambda store: _fork(store, session, target, at, file))
    sys.stdout.write(f"{target}\n")


async def _fork(store: Store, session: str, target: str, at: str, file: Path | None) -> None:
    from dataclasses import replace

    from ragflow_lg.adapters.system import RandomIds, SystemClock
    from ragflow_lg.branching import fork
    from ragflow_lg.ids import session_of_thread, thread_of_session
    from server.cli.play import canvas_of
    from server.library import load_canvas

    canvas_id = str(file or await canvas_of(store, session))
    compiled = load_canvas(Path(canvas_id)).with_saver(store.saver)
    await fork(compiled, store.saver, session, target, at, leases=store.leases)
    now = int(SystemClock().now() * 1000)
    async for record in store.runs.of_session(session):
        forked = replace(
            record,
            run_id=RandomIds().run_id(),
            session=session_of_thread(thread_of_session(target)),
            name=target,
            parent_run=record.run_id,
            started_ms=now,
            updated_ms=now,
        )
        await store.runs.put(forked)
        break
