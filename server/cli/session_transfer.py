"""``ragflow-lg sessions export``, ``import`` and ``delete``: move sessions between stores, or remove them."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from shutil import copyfileobj
from tempfile import SpooledTemporaryFile, TemporaryDirectory, TemporaryFile
from typing import IO, TYPE_CHECKING, Annotated, BinaryIO, TypeAlias

import typer
from msgspec.structs import replace

from ragflow_lg.base.errors import DamagedSessionError, SessionBusyError
from ragflow_lg.base.extras import require
from ragflow_lg.server.cli.options import Checkpoint, Output, SettingsFile
from ragflow_lg.server.cli.server_database import open_server_database
from ragflow_lg.server.cli.session_store import no_session, with_store
from ragflow_lg.server.cli.terminal import count_of, print_line, print_note

if TYPE_CHECKING:
    from ragflow_lg.checkpoints import Store
    from ragflow_lg.server.runs.session_rows import ImportRights, SessionRows
    from ragflow_lg.server.runs.stored_sessions import Selected
    from ragflow_lg.server.settings import Settings

Names: TypeAlias = Annotated[list[str] | None, typer.Argument(help="Names of sessions.", metavar="SESSION")]
AllNames: TypeAlias = Annotated[
    list[str] | None, typer.Argument(help="Names of sessions. Default: all sessions.", metavar="SESSION")
]
User: TypeAlias = Annotated[
    str, typer.Option("--user", help="The sessions whose last turn had this sys.user_id.", metavar="ID")
]

_NO_DATABASE = (
    "there is no server here. Name its database in the settings, as `database` of [server], or start it once, and "
    "import the file with --replace."
)
_SPOOLED_BYTES = 16 * 1024**2
"""How much of a session is in memory before it goes into a temporary file."""
_OTHER_STORE = "with --checkpoint, only that store is used. To import them, name it as `checkpoints` in the settings."


def export(
    names: AllNames = None,
    user: User = "",
    output: Output = None,
    settings: SettingsFile = None,
    checkpoint: Checkpoint = "",
) -> None:
    """Write sessions into a file that `import` reads, into a store of any kind.

    The file has everything that is stored of them, in plain text: steps, answers, open forms, results of steps inside
    nodes, traces and runs; for sessions of a server, also its messages and runs, the agent with the versions in use,
    and the files that the session names. Only you can read it. A session that is running, is damaged or needs a
    missing key is left out, and the exit code is 1. If you name sessions, it is refused.

    Examples:
    ragflow-lg sessions export anna -o anna.jsonl

    ragflow-lg sessions export --user 4711 -o user.jsonl
    """
    with _open_output(output) as file:
        left = with_store(
            settings, checkpoint, lambda store, config: _export(store, config, checkpoint, names or [], user, file)
        )
    if left:
        raise typer.Exit(1)


def import_(
    file: Annotated[Path, typer.Argument(help="File of `export`; - for standard input.", metavar="FILE")],
    replaces: Annotated[bool, typer.Option("--replace", help="Replace sessions that exist already.")] = False,
    tenant: Annotated[
        str, typer.Option("--tenant", help="Tenant of the server that gets the sessions. Default: its only one.")
    ] = "",
    with_agents: Annotated[
        bool, typer.Option("--with-agents", help="Import also agents and versions that the server does not have.")
    ] = False,
    settings: SettingsFile = None,
    checkpoint: Checkpoint = "",
) -> None:
    """Read sessions from a file that `export` has written.

    They go on here: at the same steps, with the same open forms. Each session is stored completely or not at all. With
    `--replace`, nothing is replaced unless the whole file can be read. The canvases of the command line are not part of
    the file; name one with `--canvas` if its path has changed.

    Sessions of a server need their agent here, and a file decides nothing about it: whose sessions they are says
    `--tenant`. With `--with-agents`, missing agents are imported; the command says what each of them opens, such as a
    webhook or a database connection.

    Examples:
    ragflow-lg sessions import anna.jsonl --checkpoint redis://localhost:6379

    ragflow-lg sessions import all.jsonl --tenant shop --with-agents
    """
    with _open_input(file) as content:

        async def work(store: Store, config: Settings) -> None:
            from ragflow_lg.server.runs.session_rows import ImportRights

            await _import(store, config, checkpoint, content, ImportRights(tenant, replaces, with_agents))

        with_store(settings, checkpoint, work, may_create=True)


def delete(
    names: Names = None,
    user: User = "",
    older_than_days: Annotated[
        float | None, typer.Option("--older-than", help="Sessions without a run for this number of days.", min=0)
    ] = None,
    settings: SettingsFile = None,
    checkpoint: Checkpoint = "",
) -> None:
    """Delete everything that is stored of sessions, and say what it was.

    Steps, long texts, results of steps inside nodes, runs, traces, in Redis the events of runs, and for sessions of a
    server its messages and runs, and the uploaded files that no other session names: all sessions of the agent are
    read for this.

    Examples:
    ragflow-lg sessions delete anna ben

    ragflow-lg sessions delete --older-than 30
    """
    if not names and not user and older_than_days is None:
        raise typer.BadParameter("Name the sessions to delete, a user (--user ID), or days (--older-than DAYS).")

    async def work(store: Store, config: Settings) -> None:
        await _delete(store, config, checkpoint, names or [], user, older_than_days)

    with_store(settings, checkpoint, work)


@contextmanager
def _open_input(file: Path) -> Generator[BinaryIO]:
    """Yield a file, or a copy of standard input, because it may be read twice."""
    if str(file) == "-":
        with TemporaryFile() as copied:
            copyfileobj(sys.stdin.buffer, copied)
            copied.seek(0)
            yield copied
        return
    try:
        content = file.open("rb")
    except OSError as error:
        raise typer.BadParameter(f"{str(file)!r} cannot be read: {error.strerror}.") from None
    with content:
        yield content


@contextmanager
def _open_output(output: Path | None) -> Generator[BinaryIO]:
    """Yield a file that only its owner can read. An interruption leaves the old one."""
    if output is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    new = output.with_name(f".{output.name}.new")
    try:
        new.unlink(missing_ok=True)
        file = os.fdopen(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb")
    except OSError as error:
        raise typer.BadParameter(f"{str(output)!r} cannot be written: {error.strerror}.") from None
    try:
        with file:
            yield file
        new.replace(output)
    except OSError as error:
        raise typer.BadParameter(f"{str(output)!r} cannot be written: {error.strerror}.") from None
    finally:
        new.unlink(missing_ok=True)


@asynccontextmanager
async def _server_rows(
    settings: Settings,
    checkpoint: str,
    *,
    rights: ImportRights | None = None,
    is_rehearsal: bool = False,
    creates: bool = False,
) -> AsyncGenerator[SessionRows | None]:
    """Yield the rows of the server whose database the settings name. Without one, create it or yield None.

    The database belongs to the session store of the settings: with ``--checkpoint``, it is left alone.
    """
    if creates:
        require("server", "The server's database")
    if not _uses_database(settings, checkpoint) or find_spec("sqlalchemy") is None:
        yield None
        return
    from ragflow_lg.server.runs.session_rows import SessionRows

    async with open_server_database(settings, creates=creates) as database:
        yield database and SessionRows(database, settings.server.files, rights, is_rehearsal=is_rehearsal)


def _uses_database(settings: Settings, checkpoint: str) -> bool:
    return checkpoint in ("", settings.checkpoints)


async def _export(
    store: Store, settings: Settings, checkpoint: str, names: list[str], user: str, file: BinaryIO
) -> int:
    """Export sessions. Return how many were left out."""
    from ragflow_lg.checkpoints.sessions.session_lines import FORMAT, HeaderLine, encode_line
    from ragflow_lg.server.runs.stored_sessions import select_sessions

    found, missing = await select_sessions(store, names, user)
    for name in missing:
        raise no_session(name)
    file.write(encode_line(HeaderLine(FORMAT)))
    async with _server_rows(settings, checkpoint) as rows:
        left = 0
        for selected in found:
            with SpooledTemporaryFile(_SPOOLED_BYTES) as whole:
                try:
                    await _export_session(store, selected.session, rows, whole)
                except (SessionBusyError, DamagedSessionError) as error:
                    if names:
                        raise
                    print_note(f"{selected.name} was not exported: {error}")
                    left += 1
                    continue
                whole.seek(0)
                copyfileobj(whole, file)
    print_note(f"Exported {count_of(len(found) - left, 'session')}.")
    return left


async def _export_session(store: Store, session: str, rows: SessionRows | None, file: IO[bytes]) -> None:
    from ragflow_lg.checkpoints.records.run_records import hex_session
    from ragflow_lg.checkpoints.sessions.session_files import export_session
    from ragflow_lg.checkpoints.sessions.session_lines import encode_line
    from ragflow_lg.server.runs.session_rows import find_ids

    ids: set[str] = set()
    encoded = encode_line(await export_session(store, session))
    file.write(encoded)
    if rows is not None:
        find_ids(encoded, ids)
        async for line in rows.export(hex_session(session), ids):
            file.write(encode_line(line))


async def _import(store: Store, settings: Settings, checkpoint: str, file: BinaryIO, rights: ImportRights) -> None:
    from ragflow_lg.checkpoints import open_store
    from ragflow_lg.checkpoints.sessions.session_files import import_sessions, rehearse_import
    from ragflow_lg.checkpoints.sessions.session_lines import has_server_lines
    from ragflow_lg.server.assembly.canvas_openings import describe_openings

    count = 0
    rights = replace(rights, max_bytes=file.seek(0, os.SEEK_END))
    file.seek(0)
    for_server = has_server_lines(file)
    creates = for_server and _uses_database(settings, checkpoint) and "database" in settings.server.model_fields_set
    async with _server_rows(settings, checkpoint, rights=rights, creates=creates) as rows:
        if for_server and rows is None:
            reason = _NO_DATABASE if _uses_database(settings, checkpoint) else _OTHER_STORE
            print_note(f"The messages, runs, agents and files of a server in this file are left out: {reason}")
        if rights.replaces:
            rehearsal = _server_rows(settings, checkpoint, rights=rights, is_rehearsal=True)
            with TemporaryDirectory(prefix="ragflow-lg-import-") as folder:
                async with rehearsal as checked, open_store(f"sqlite:///{folder}/sessions.db") as scratch:
                    await rehearse_import(store, scratch, file, server_rows=checked)
        async for imported in import_sessions(store, file, replaces=rights.replaces, server_rows=rows):
            counts = f"{count_of(imported.checkpoints, 'checkpoint')} and {count_of(imported.runs, 'run')}"
            print_line(f"imported {imported.name or imported.session}: {counts}")
            count += 1
        for added in dict.fromkeys(rows.added) if rows is not None else ():
            opened = describe_openings(added.dsl, settings)
            print_line(f"imported the agent {added.title!r} ({added.agent}) of the tenant {added.tenant!r}: {opened}")
    if not count:
        print_note("The file has no sessions.")


async def _delete(
    store: Store, settings: Settings, checkpoint: str, names: list[str], user: str, older_than_days: float | None
) -> None:
    from ragflow_lg.adapters.system_services import SystemClock
    from ragflow_lg.server.runs.stored_sessions import select_sessions

    found, missing = await select_sessions(store, names, user)
    unread = [f"{selected.name} ({selected.problem.rstrip('.')})" for selected in found if selected.problem]
    found = [selected for selected in found if not selected.problem]
    limit_ms = None
    if older_than_days is not None:
        limit_ms = (SystemClock().now() - older_than_days * 24 * 3600) * 1000
        found = [selected for selected in found if await _is_old(store, selected, limit_ms)]
    async with _server_rows(settings, checkpoint) as rows:
        await _delete_found(store, found, rows, limit_ms)
    for name in missing:
        raise no_session(name)
    if unread:
        raise DamagedSessionError(
            f"Whose sessions these are is unknown, so they were not deleted: {', '.join(unread)}."
        )
    if not found:
        print_note("There are no such sessions.")


async def _is_old(store: Store, selected: Selected, limit_ms: float) -> bool:
    """Check whether a session has had no run since a time."""
    from ragflow_lg.runs.runner import newest_run

    with suppress(DamagedSessionError):
        newest = await newest_run(store, selected.session)
        return newest is not None and newest.updated_ms < limit_ms
    return False


async def _delete_found(store: Store, found: list[Selected], rows: SessionRows | None, limit_ms: float | None) -> None:
    """Delete sessions. With a time, leave those that are running or have had a run since then."""
    from ragflow_lg.checkpoints.records.run_records import hex_session
    from ragflow_lg.checkpoints.sessions.session_pruning import count_entries

    files = None
    if rows is not None:
        from ragflow_lg.server.runs.session_files import SessionFiles  # it needs the extra of the server

        files = SessionFiles(store, rows.database, rows.folder)
        await files.find([hex_session(selected.session) for selected in found])
    for selected in found:
        session_id = hex_session(selected.session)
        if limit_ms is not None and not await _is_old(store, selected, limit_ms):  # there was a turn meanwhile
            continue
        checkpoints, runs = await count_entries(store, selected.session)  # a damaged session is deleted as well
        try:
            await (rows.delete_from(store, session_id) if rows else store.delete_session(selected.session))
        except SessionBusyError as error:
            if limit_ms is None:
                raise
            print_line(f"{selected.name} was not deleted: it is running in {error.holder}")
            continue
        counts = [count_of(checkpoints, "checkpoint"), count_of(runs, "run")]
        if files is not None:
            counts.append(count_of(await files.delete_of(session_id), "file"))
        print_line(f"deleted {selected.name}: {', '.join(counts[:-1])} and {counts[-1]}")
