"""``ragflow-lg history``: the checkpoints of a session."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ragflow_lg.server.cli.options import CanvasFile, Checkpoint, Session, SettingsFile
from ragflow_lg.server.cli.terminal import format_time, print_line

if TYPE_CHECKING:
    from ragflow_lg.base.ids import NodeId
    from ragflow_lg.checkpoints import Store
    from ragflow_lg.component.plan import Plan


def history(
    session: Session, canvas: CanvasFile = None, settings: SettingsFile = None, checkpoint: Checkpoint = ""
) -> None:
    """List the checkpoints of a session, newest first.

    Each line contains the id, time, size and the nodes that ran next. Checkpoints inside a Loop or Iteration follow,
    with their rounds. `fork` and `rerun` can start at any checkpoint.

    Example: ragflow-lg history anna
    """
    from ragflow_lg.server.cli.play import with_store
    from ragflow_lg.server.settings import load_settings

    with_store(load_settings(settings), checkpoint, lambda store: _list(store, session, canvas))


async def _list(store: Store, session: str, file: Path | None) -> None:
    from ragflow_lg.runs.stored_steps import list_checkpoints
    from ragflow_lg.server.assembly.library import load_canvas
    from ragflow_lg.server.cli.play import canvas_of

    canvas = load_canvas(file or Path(await canvas_of(store, session)), asks_servers=False)
    async for info in list_checkpoints(canvas.with_saver(store.saver), store.saver, session):
        region = f"  in {_name(canvas.plan, info.region)}" if info.region else ""
        round_ = f" round {info.round}" if info.round is not None else ""
        nodes = ", ".join(_name(canvas.plan, id_) for id_ in info.next) or "–"
        time = format_time(datetime.fromisoformat(info.created_at))
        print_line(f"{info.checkpoint}  {time}  {info.size_bytes:>8} B{region}{round_}  next: {nodes}")


def _name(plan: Plan, id_: NodeId) -> str:
    """Return a node's id, which other commands accept, and its title."""
    node = plan.nodes.get(id_)
    return f"{id_} ({node.title})" if node is not None and node.title not in ("", id_) else id_
