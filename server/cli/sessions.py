"""``ragflow-lg sessions``: list and delete sessions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from ragflow_lg.server.cli.options import Checkpoint, SettingsFile
from ragflow_lg.server.cli.terminal import format_time, print_line

if TYPE_CHECKING:
    from ragflow_lg.checkpoints import Store

_DAY_MS = 24 * 3600 * 1000


def sessions(
    settings: SettingsFile = None,
    checkpoint: Checkpoint = "",
    delete: Annotated[
        list[str] | None, typer.Option("--delete", help="Delete this session. Repeatable.", metavar="SESSION")
    ] = None,
    older_than_days: Annotated[
        float | None,
        typer.Option("--delete-older-than", help="Delete sessions without a run for this number of days.", min=0),
    ] = None,
) -> None:
    """List or delete sessions.

    The list shows each session's status, time of the last run and canvas, newest first.

    A session is "interrupted" if the process running its turn died or was stopped; `continue` finishes the turn.

    Examples:
    ragflow-lg sessions

    ragflow-lg sessions --delete-older-than 30
    """
    from ragflow_lg.server.cli.play import with_store
    from ragflow_lg.server.settings import load_settings

    config = load_settings(settings)
    with_store(config, checkpoint, lambda store: _list_or_delete(store, delete or [], older_than_days))


async def _list_or_delete(store: Store, names: list[str], older_than_days: float | None) -> None:
    from ragflow_lg.server.cli.play import no_session
    from ragflow_lg.server.runs.stored_sessions import has_session, is_interrupted

    if older_than_days is not None:
        await _delete_old(store, older_than_days)
    missing: list[str] = []
    for name in names:
        if await has_session(store, name):
            await store.delete_session(name)
            print_line(f"deleted {name}")
        else:
            missing.append(name)
    for name in missing:
        raise no_session(name)
    if names or older_than_days is not None:
        return
    async for record in store.runs.sessions():
        reason = f"  {record.reason}" if record.reason else ""
        time = format_time(datetime.fromtimestamp(record.started_ms / 1000, UTC))
        status = "interrupted" if await is_interrupted(store, record) else record.status
        print_line(f"{record.name or record.session:<32}  {status:<11}  {time}  {record.canvas_id}{reason}")


async def _delete_old(store: Store, older_than_days: float) -> None:
    from ragflow_lg.adapters.system_services import SystemClock

    limit = SystemClock().now() * 1000 - older_than_days * _DAY_MS
    old = [record async for record in store.runs.sessions() if record.updated_ms < limit]
    for record in old:
        name = record.name or record.session
        if holder := await store.leases.holder(record.session):
            print_line(f"{name} was not deleted: it is running in {holder}")
        else:
            await store.delete_session(record.session)
            print_line(f"deleted {name}")
    if not old:
        print_line("No session is older than that.")
