"""``ragflow-lg sessions reencrypt``: encrypt everything that is stored with the first key of the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ragflow_lg.server.cli.options import Checkpoint, SettingsFile
from ragflow_lg.server.cli.server_database import open_server_database
from ragflow_lg.server.cli.session_store import no_session, use_store
from ragflow_lg.server.cli.terminal import count_of, print_line, print_note

if TYPE_CHECKING:
    from ragflow_lg.checkpoints import Store
    from ragflow_lg.server.database.database import Database
    from ragflow_lg.server.settings import Settings


def reencrypt(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Names of sessions. Default: everything that is encrypted.", metavar="SESSION"),
    ] = None,
    settings: SettingsFile = None,
    checkpoint: Checkpoint = "",
) -> None:
    """Encrypt what is stored with the first of the `encryption_keys`.

    Whatever is encrypted with another key, or not at all, is written again: sessions, and without names memories, the
    server's messages and uploaded files as well. Servers may run meanwhile. A session that is running is left out.
    Repeat the command until it has nothing left to do; it goes on where it was interrupted. Then remove the old key
    from the settings.

    Example: ragflow-lg sessions reencrypt
    """
    import asyncio

    from ragflow_lg.base.errors import SettingsError
    from ragflow_lg.server.settings import load_settings

    config = load_settings(settings)
    if not config.encryption_keys:
        raise SettingsError("The settings have no `encryption_keys`, with which stored data could be encrypted.")
    left = use_store(config, checkpoint, lambda store: _reencrypt_sessions(store, names or []))
    if not names:
        left += asyncio.run(_reencrypt_memories(config, checkpoint or config.checkpoints))
        left += asyncio.run(_reencrypt_server(config))
    if left:
        print_note(f"{count_of(left, 'part')} could not be encrypted; the old keys are still needed.")
        raise typer.Exit(1)
    key = config.encryption_keys[0].id
    print_note(f"{'These sessions are' if names else 'Everything is'} encrypted with the key {key!r}.")


async def _reencrypt_sessions(store: Store, names: list[str]) -> int:
    """Encrypt sessions. Return how many could not be encrypted."""
    from ragflow_lg.base.errors import CheckpointError, SessionBusyError
    from ragflow_lg.checkpoints.encryption.key_rotation import reencrypt_session, sessions_of
    from ragflow_lg.runs.runner import newest_run

    known = {record.session: record.name async for record in store.runs.sessions()}
    for name in names:
        if await newest_run(store, name) is None:
            raise no_session(name)
    left = 0
    for session in names or await sessions_of(store):
        name = known.get(session) or session
        try:
            changed = await reencrypt_session(store, session)
        except SessionBusyError as error:
            print_line(f"{name} was not encrypted: it is running in {error.holder}")
            left += 1
        except CheckpointError as error:
            print_line(f"{name} was not encrypted: {error}")
            left += 1
        else:
            if changed:
                parts = f"{count_of(changed.checkpoints, 'checkpoint')}, {count_of(changed.parts, 'part')}"
                print_line(f"encrypted {name}: {parts} and {count_of(changed.records, 'record')}")
    await store.saver.release_space()
    return left


async def _reencrypt_memories(settings: Settings, url: str) -> int:
    """Encrypt the memories beside the sessions. Return how many could not be encrypted."""
    from ragflow_lg.checkpoints.backends import open_item_table

    left = count = 0
    async with open_item_table(url, settings.checkpoint_prefix, settings.store_options["keys"]) as table:
        for namespace in await table.namespaces():
            changed, failed = await table.reencrypt(namespace)
            count, left = count + changed, left + failed
    if count:
        print_line(f"encrypted {count_of(count, 'entry', 'entries')} of memories")
    if left:
        entries = count_of(left, "entry", "entries")
        print_line(f"{entries} of memories could not be encrypted: the key is missing, or they have just changed")
    return left


async def _reencrypt_server(settings: Settings) -> int:
    """Encrypt the messages in the server's database and the uploaded files. Return how many could not be encrypted."""
    from ragflow_lg.base.errors import SessionKeyError
    from ragflow_lg.server.database.text_rotation import encrypted_tables, reencrypt_table

    left = 0
    async with open_server_database(settings) as database:
        if database is None:
            return 0
        for table in encrypted_tables():
            count = 0
            try:
                async for changed in reencrypt_table(database, table):
                    count += changed
            except SessionKeyError as error:
                print_line(f"the table {table.table.name} was not encrypted: {error}")
                left += 1
            if count:
                print_line(f"encrypted the table {table.table.name}: {count_of(count, 'row')}")
        return left + await _reencrypt_files(settings, database)


async def _reencrypt_files(settings: Settings, database: Database) -> int:
    from ragflow_lg.base.errors import RagflowLgError
    from ragflow_lg.server.agents.file_store import FileStore
    from ragflow_lg.server.database.file_repository import all_files

    left = count = 0
    async for tenant, file_id in all_files(database):
        store = FileStore(settings.server.files, database, tenant, 0, 0, keys=database.keys)
        try:
            count += await store.reencrypt(file_id)
        except RagflowLgError as error:
            print_line(f"the file {file_id} was not encrypted: {error}")
            left += 1
    if count:
        print_line(f"encrypted {count_of(count, 'file')}")
    return left
