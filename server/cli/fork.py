"""``ragflow-lg fork``: a new session that begins where another one has been."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragflow_lg.server.cli.options import CanvasFile, Checkpoint, NewSession, Session, SettingsFile
from ragflow_lg.server.cli.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from ragflow_lg.checkpoints import Store
    from ragflow_lg.services.sessions import RunStatus

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
    from ragflow_lg.server.cli.next_step_hints import Place
    from ragflow_lg.server.cli.play import with_store
    from ragflow_lg.server.settings import load_settings

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
    from ragflow_lg.adapters.system_services import RandomIds, SystemClock
    from ragflow_lg.server.assembly.library import load_canvas
    from ragflow_lg.server.cli.play import canvas_of, free_name
    from ragflow_lg.server.runs.stored_sessions import fork_session

    canvas_id = str(file or await canvas_of(store, session))
    canvas = load_canvas(Path(canvas_id), asks_servers=False)
    target = name or await free_name(store, f"{session}-fork")
    record = await fork_session(
        store, canvas, session, target, at, canvas_id=canvas_id, clock=SystemClock(), ids=RandomIds()
    )
    return target, record.status
