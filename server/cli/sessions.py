"""``ragflow-lg sessions``: what sessions there are; and deleting them."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from server.cli.options import Checkpoint, SettingsFile
from server.cli.terminal import printable

if TYPE_CHECKING:
    from checkpoints import Store

__all__ = ["sessions"]

_DAY_MS = 24 * 3600 * 1000


def sessions(
    settings: SettingsFile = None,
    checkpoint: Checkpoint = "",
    delete: Annotated[
        list[str] | None, typer.Option("--delete", help="Delete this session.", metavar="SESSION")
    ] = None,
    older_than_days: Annotated[
        float | None, typer.Option("--delete-older-than", help="Delete sessions not run for so many days.", min=0)
    ] = None,
) -> None:
    """List sessions, the newest first: name, status, time of the last run, canvas.

    Examples:
    ragflow-lg sessions

    ragflow-lg sessions --delete-older-than 30
    """
    from server.cli.play import with_store
    from server.settings import load_settings

    loaded = load_settings(settings)
    with_store(loaded, checkpoint, lambda store: _sessions(store, delete or [], older_than_days))


async def _sessions(store: Store, names: list[str], older_than_days: float | None) -> None:
    for name in names:
        await store.delete_session(name)
    newest = [record async for record in store.runs.sessions()]
    limit = None
    if older_than_days is not None:
        from ragflow_lg.adapters.system import SystemClock

        limit = SystemClock().now() * 1000 - older_than_days * _DAY_MS
    for record in newest:
        if limit is not None and record.updated_ms < limit:
            await store.delete_session(record.session)
        elif not names and limit is None:
            when = datetime.fromtimestamp(record.started_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
            reason = f"  {record.reason}" if record.reason else ""
            line = f"{record.name or record.session:<32}  {record.status:<9}  {when}  {record.canvas_id}{reason}"
            sys.stdout.write(printable(line).replace("\n", " ") + "\n")
