"""``ragflow-lg cancel``: stop the current turn of a session, whichever process is running it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ragflow_lg.server.cli.options import CanvasFile, Checkpoint, Session, SettingsFile
from ragflow_lg.server.cli.terminal import print_line

if TYPE_CHECKING:
    from ragflow_lg.checkpoints import Store
    from ragflow_lg.server.settings import Settings


def cancel(
    session: Session, canvas: CanvasFile = None, settings: SettingsFile = None, checkpoint: Checkpoint = ""
) -> None:
    """Stop a session's running turn, even in another process. `continue` can finish it later.

    A turn that is waiting for an answer is abandoned: the session's next run starts a new turn.

    Example: ragflow-lg cancel anna
    """
    from ragflow_lg.server.cli.play import with_store
    from ragflow_lg.server.settings import load_settings

    config = load_settings(settings)
    print_line(with_store(config, checkpoint, lambda store: _cancel(store, session, canvas, config)))


async def _cancel(store: Store, session: str, file: Path | None, settings: Settings) -> str:
    """Cancel the turn and return a sentence that says what was done."""
    from ragflow_lg.server.cli.play import no_session
    from ragflow_lg.server.runs.stored_sessions import abandon_turn, has_session, newest_run

    if holder := await store.leases.holder(session):
        await store.cancels.request(session)
        return f"Asked {holder} to stop {session!r}."
    if not await has_session(store, session):
        raise no_session(session)
    newest = await newest_run(store, session)
    if newest is None or newest.status != "waiting":
        return f"No turn is running in {session!r}."
    from ragflow_lg.adapters.system_services import SystemClock
    from ragflow_lg.server.assembly.library import load_canvas

    await abandon_turn(store, load_canvas(file or Path(newest.canvas_id), settings), session, SystemClock())
    return f"{session!r} no longer waits for an answer; its next run starts a new turn."
