"""``ragflow-lg cancel``: stop the turn of a session, wherever it runs."""

from __future__ import annotations

from server.cli.options import Checkpoint, Session, SettingsFile

__all__ = ["cancel"]


def cancel(session: Session, settings: SettingsFile = None, checkpoint: Checkpoint = "") -> None:
    """Stop the turn of a session in whatever process it runs. It can be continued, or a new turn begun.

    Example: ragflow-lg cancel anna
    """
    from server.cli.play import with_store
    from server.settings import load_settings

    with_store(load_settings(settings), checkpoint, lambda store: store.cancels.request(session))
