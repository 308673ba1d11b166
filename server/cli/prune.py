"""``ragflow-lg sessions prune``: delete the old turns of sessions."""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from ragflow_lg.server.cli.options import Checkpoint, SettingsFile
from ragflow_lg.server.cli.session_store import no_session, with_store
from ragflow_lg.server.cli.terminal import count_of, print_line

if TYPE_CHECKING:
    from ragflow_lg.checkpoints import Store
    from ragflow_lg.checkpoints.sessions.session_pruning import Pruned, PruneLimits

_DAY_MS = 24 * 3600 * 1000


def prune(
    names: Annotated[
        list[str] | None, typer.Argument(help="Names of sessions. Default: all sessions.", metavar="SESSION")
    ] = None,
    keep_turns: Annotated[
        int | None, typer.Option(help="Keep this number of turns of each session.", metavar="NUMBER", min=1)
    ] = None,
    older_than_days: Annotated[
        float | None,
        typer.Option(
            "--older-than", help="Delete turns that ended more than this number of days ago.", metavar="DAYS", min=0
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be deleted.")] = False,
    settings: SettingsFile = None,
    checkpoint: Checkpoint = "",
) -> None:
    """Delete the stored steps of old turns. The conversation goes on as before.

    Deleted turns can no longer be used by `history`, `fork` and `rerun`. The last turn is always kept, with its open
    forms. With both options, a turn is deleted only if both allow it. A session that is running is not changed.

    The sizes are those of the contents. An SQLite file becomes smaller by at least as much.

    Examples:
    ragflow-lg sessions prune anna --keep-turns 20

    ragflow-lg sessions prune --older-than 30 --dry-run
    """
    from ragflow_lg.adapters.system_services import SystemClock
    from ragflow_lg.checkpoints.sessions.session_pruning import PruneLimits

    if keep_turns is None and older_than_days is None:
        raise typer.BadParameter("Say which turns to keep: --keep-turns NUMBER, --older-than DAYS, or both.")
    if older_than_days is not None and not math.isfinite(older_than_days):
        raise typer.BadParameter(f"--older-than is a number of days, not {older_than_days}.")
    since_ms = 0 if older_than_days is None else int(SystemClock().now() * 1000 - older_than_days * _DAY_MS)
    limits = PruneLimits(keep_turns or 1, since_ms)
    with_store(settings, checkpoint, lambda store, _: _prune(store, names or [], limits, dry_run))


async def _prune(store: Store, names: list[str], limits: PruneLimits, is_dry_run: bool) -> None:
    from ragflow_lg.base.errors import DamagedSessionError, SessionBusyError, SessionKeyError
    from ragflow_lg.checkpoints.sessions.session_pruning import prune_session
    from ragflow_lg.server.runs.stored_sessions import has_session

    for name in names:
        if not await has_session(store, name):
            raise no_session(name)
    for name in names:
        print_line(_describe(name, await prune_session(store, name, limits, is_dry_run=is_dry_run), is_dry_run))
    if names:
        return
    damaged: list[str] = []
    locked = 0
    for record in [record async for record in store.runs.sessions()]:
        name = record.name or record.session
        try:
            pruned = await prune_session(store, record.session, limits, is_dry_run=is_dry_run)
        except SessionBusyError as error:
            print_line(f"{name} was not changed: it is running in {error.holder}")
        except SessionKeyError as error:
            locked += 1
            print_line(f"{name} was not changed: {error}")
        except DamagedSessionError as error:
            damaged.append(name)
            print_line(f"{name} was not changed: {error}")
        else:
            print_line(_describe(name, pruned, is_dry_run))
    if damaged:
        options = " ".join(f"--delete {shlex.quote(name)}" for name in damaged)
        raise DamagedSessionError(
            f"{count_of(len(damaged), 'session')} could not be pruned. Restore the store from a backup, or delete what "
            f"is damaged: ragflow-lg sessions {options}"
        )
    if locked:
        raise SessionKeyError(f"{count_of(locked, 'session')} could not be pruned, because a key is missing.")


def _describe(name: str, pruned: Pruned, is_dry_run: bool) -> str:
    if not (pruned.checkpoints or pruned.parts or pruned.runs):
        return f"{name}: nothing to delete"
    parts, runs = count_of(pruned.parts, "part"), count_of(pruned.runs, "run")
    what = f"{count_of(pruned.checkpoints, 'checkpoint')}, {parts} and {runs}"
    size = f"{pruned.bytes / 1e6:,.1f} MB" if pruned.bytes >= 1e6 else f"{pruned.bytes / 1e3:,.1f} kB"
    return f"{name}: {'would delete' if is_dry_run else 'deleted'} {what} ({size} of content)"
