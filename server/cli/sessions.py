"""``ragflow-lg sessions``: list, look into, go back in, stop, prune and delete stored sessions."""

from __future__ import annotations

import math
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragflow_lg.server.cli.command_line import CommandGroup
from ragflow_lg.server.cli.fork import fork, rerun
from ragflow_lg.server.cli.options import CanvasFile, Checkpoint, Session, SettingsFile
from ragflow_lg.server.cli.session_store import canvas_of, no_session, with_store
from ragflow_lg.server.cli.session_transfer import AllNames, delete, export, import_
from ragflow_lg.server.cli.terminal import count_of, format_time, print_line, print_note
from ragflow_lg.server.cli.trace import trace

if TYPE_CHECKING:
    from ragflow_lg.base.ids import NodeId
    from ragflow_lg.checkpoints import Store
    from ragflow_lg.checkpoints.sessions.session_pruning import Pruned, PruneLimits
    from ragflow_lg.component.plan import Plan
    from ragflow_lg.server.settings import Settings


def prune(
    names: AllNames = None,
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
        except (SessionKeyError, DamagedSessionError) as error:
            locked += isinstance(error, SessionKeyError)
            damaged += [] if isinstance(error, SessionKeyError) else [name]
            print_line(f"{name} was not changed: {error}")
        else:
            print_line(_describe(name, pruned, is_dry_run))
    if damaged:
        quoted = map(shlex.quote, damaged)
        raise DamagedSessionError(
            f"{count_of(len(damaged), 'session')} could not be pruned. Restore the store from a backup, or delete what "
            f"is damaged: ragflow-lg sessions delete {' '.join(quoted)}"
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


_DAY_MS = 24 * 3600 * 1000


sessions = typer.Typer(rich_markup_mode=None, add_completion=False, cls=CommandGroup)


@sessions.callback(invoke_without_command=True)
def list_(context: typer.Context, settings: SettingsFile = None, checkpoint: Checkpoint = "") -> None:
    """List, look into, go back in, stop, move and delete sessions.

    The list shows each session's status, time of the last run and canvas, newest first.

    A session is "interrupted" if the process running its turn died or was stopped; `continue` finishes the turn.

    Examples:
    ragflow-lg sessions

    ragflow-lg sessions delete --older-than 30
    """
    if context.invoked_subcommand is not None:  # which takes the options before it, unless it has its own
        given = {name: value for name, value in (("settings", settings), ("checkpoint", checkpoint)) if value}
        context.default_map = {context.invoked_subcommand: given}
        return
    from ragflow_lg.checkpoints.store_url import redact_url

    async def work(store: Store, config: Settings) -> None:
        if not await _print_sessions(store):
            url = redact_url(checkpoint or config.checkpoints)
            print_note(f"{url} has no sessions. --checkpoint names another store.")

    with_store(settings, checkpoint, work)


async def _print_sessions(store: Store) -> bool:
    """List all sessions. Return False if there are none."""
    from ragflow_lg.server.runs.stored_sessions import is_interrupted

    has_sessions = False
    async for record in store.runs.sessions():
        has_sessions = True
        reason = f"  {record.reason}" if record.reason else ""
        time = format_time(datetime.fromtimestamp(record.started_ms / 1000, UTC))
        status = "interrupted" if await is_interrupted(store, record) else record.status
        print_line(f"{record.name or record.session:<32}  {status:<11}  {time}  {record.canvas_id}{reason}")
    return has_sessions


def history(
    session: Session, canvas: CanvasFile = None, settings: SettingsFile = None, checkpoint: Checkpoint = ""
) -> None:
    """List the checkpoints of a session, newest first.

    Each line contains the id, time, size and the nodes that ran next. Checkpoints inside a Loop or Iteration follow,
    with their rounds. `fork` and `rerun` can start at any checkpoint.

    Example: ragflow-lg sessions history anna
    """
    with_store(settings, checkpoint, lambda store, _: _list(store, session, canvas))


async def _list(store: Store, session: str, file: Path | None) -> None:
    from ragflow_lg.runs.stored_steps import list_checkpoints
    from ragflow_lg.server.assembly.library import load_canvas

    canvas = load_canvas(file or await canvas_of(store, session), asks_servers=False)
    newer = None
    async for info in list_checkpoints(canvas.with_saver(store.saver), store.saver, session):
        region = f"  in {_name(canvas.plan, info.region)}" if info.region else ""
        round_ = f" round {info.round}" if info.round is not None else ""
        nodes = ", ".join(_name(canvas.plan, id_) for id_ in info.next)
        if info.is_input:
            nodes = f"the input of {nodes}"
        elif not nodes:  # the last node and the end of the turn are steps of their own
            has_end = newer is not None and newer.namespace == info.namespace and not newer.next
            nodes = "the end of the turn" if has_end else "–"
        newer = info
        time = format_time(datetime.fromisoformat(info.created_at))
        print_line(f"{info.checkpoint}  {time}  {info.size_bytes:>8} B{region}{round_}  next: {nodes}")


def _name(plan: Plan, id_: NodeId) -> str:
    """Return a node's id, which other commands accept, and its title."""
    node = plan.nodes.get(id_)
    return f"{id_} ({node.title})" if node is not None and node.title not in ("", id_) else id_


def cancel(
    session: Session, canvas: CanvasFile = None, settings: SettingsFile = None, checkpoint: Checkpoint = ""
) -> None:
    """Stop a session's running turn, even in another process. `continue` can finish it later.

    A turn that is waiting for an answer is abandoned: the session's next run starts a new turn.

    Example: ragflow-lg sessions cancel anna
    """
    print_line(with_store(settings, checkpoint, lambda store, config: _cancel(store, session, canvas, config)))


async def _cancel(store: Store, session: str, file: Path | None, settings: Settings) -> str:
    """Cancel the turn and return a sentence that says what was done."""
    from ragflow_lg.runs.runner import abandon, newest_run
    from ragflow_lg.server.runs.stored_sessions import has_session

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

    await abandon(load_canvas(file or Path(newest.canvas_id), settings), session, store, SystemClock())
    return f"{session!r} no longer waits for an answer; its next run starts a new turn."


for _command in (history, trace, rerun, fork, cancel, prune, export, delete):
    sessions.command(no_args_is_help=_command not in (prune, export))(_command)
sessions.command("import", no_args_is_help=True)(import_)
sessions.command("list", hidden=True)(list_)
