"""``ragflow-lg cancel``: stop the turn of a session, wherever it runs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from server.cli.options import Checkpoint, Session, SettingsFile
from server.cli.terminal import printable

if TYPE_CHECKING:
    from checkpoints import Store

__all__ = ["cancel"]


def cancel(session: Session, settings: SettingsFile = None, checkpoint: Checkpoint = "") -> None:
    """Stop the turn of a session in whatever process it runs. It can be continued, or a new turn begun.

    Example: ragflow-lg cancel anna
    """
    from server.cli.play import with_store
    from server.settings import load_settings

    done = with_store(load_settings(settings), checkpoint, lambda store: _cancel(store, session))
    sys.stdout.write(printable(f"{done}\n"))


async def _cancel(store: Store, session: str) -> str:
    from server.cli.play import has_session, no_session

    if holder := await store.leases.holder(session):
        await store.cancels.request(session)
        return f"Asked {holder} to stop {session!r}."
    if await has_session(store, session):
        return f"Nothing runs in {session!r}."
    raise no_session(session)
