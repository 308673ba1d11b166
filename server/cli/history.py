"""``ragflow-lg history``: the stored steps of a session."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ragflow_lg.server.cli.options import CanvasFile, Checkpoint, Session, SettingsFile
from ragflow_lg.server.cli.terminal import printable, shown_time

if TYPE_CHECKING:
    from ragflow_lg.base.ids import NodeId
    from ragflow_lg.checkpoints import Store
    from ragflow_lg.component.plan import Plan

__all__ = ["history"]


def history(
    session: Session, canvas: CanvasFile = None, settings: SettingsFile = None, checkpoint: Checkpoint = ""
) -> None:
    """List the steps of a session, the newest first: checkpoint, time, size, and the nodes (titles) that came next.

    Steps of a Loop or Iteration are listed behind, with their rounds. fork and rerun begin at any of them.

    Example: ragflow-lg history anna
    """
    from ragflow_lg.server.cli.play import with_store
    from ragflow_lg.server.settings import load_settings

    with_store(load_settings(settings), checkpoint, lambda store: _history(store, session, canvas))


async def _history(store: Store, session: str, file: Path | None) -> None:
    from ragflow_lg.runs.branching import list_checkpoints
    from ragflow_lg.server.assembly.library import load_canvas
    from ragflow_lg.server.cli.play import canvas_of

    canvas = load_canvas(file or Path(await canvas_of(store, session)), asks_servers=False)
    async for info in list_checkpoints(canvas.with_saver(store.saver), store.saver, session):
        where = f"  in {_named(canvas.plan, info.region)}" if info.region else ""
        turn = f" round {info.round}" if info.round is not None else ""
        coming = ", ".join(_named(canvas.plan, id_) for id_ in info.next) or "–"
        when = shown_time(datetime.fromisoformat(info.created_at))
        line = f"{info.checkpoint}  {when}  {info.size_bytes:>8} B{where}{turn}  next: {coming}"
        sys.stdout.write(printable(line) + "\n")


def _named(plan: Plan, id_: NodeId) -> str:
    """Show a node by the id that other commands take, and by its title."""
    node = plan.nodes.get(id_)
    return f"{id_} ({node.title})" if node is not None and node.title not in ("", id_) else id_
