"""``ragflow-lg keys``: the server's API keys."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from ragflow_lg.server.cli.options import SettingsFile
from ragflow_lg.server.cli.terminal import format_time, print_line, print_note

if TYPE_CHECKING:
    from pathlib import Path

    from ragflow_lg.server.database.key_repository import KeyRepository
    from ragflow_lg.server.database.tables import KeyRow


class Action(StrEnum):
    """The command's actions."""

    CREATE = "create"
    LIST = "list"
    REVOKE = "revoke"


class Compat(StrEnum):
    """RAGFlow versions that clients can be written for."""

    CURRENT = "current"
    LONG_PAGES = "0.25.1"
    OLD = "0.24"


def keys(
    action: Annotated[Action, typer.Argument(help="What to do.")],
    name: Annotated[
        str, typer.Argument(help="create: purpose of the key. revoke: the key, its first characters, or its name.")
    ] = "",
    tenant: Annotated[str, typer.Option("--tenant", help="Tenant whose agents the key gives access to.")] = "default",
    beta: Annotated[bool, typer.Option("--beta", help="Create a key that is valid only for embedded pages.")] = False,
    compat: Annotated[
        Compat | None,
        typer.Option("--compat", help="Response shapes that the key's clients expect. Default: [server] compat."),
    ] = None,
    settings: SettingsFile = None,
) -> None:
    """Create, list and revoke API keys. A key is shown only once, when it is created.

    Examples:
    ragflow-lg keys create "web shop" --tenant shop

    ragflow-lg keys create "old SDK" --compat 0.24

    ragflow-lg keys revoke ragflow-Ab3dEf9h
    """
    import asyncio

    from ragflow_lg.server.observability.audit import open_audit
    from ragflow_lg.server.settings import load_settings

    if action is Action.REVOKE and not name:
        raise typer.BadParameter("Enter the key, its first characters, or its name.", param_hint="NAME")
    section = load_settings(settings).server
    url = section.database.get_secret_value()
    with open_audit(section.audit):
        asyncio.run(_perform(url, action, name, tenant, "beta" if beta else "api", compat.value if compat else ""))


async def _perform(url: str, action: Action, name: str, tenant: str, kind: str, compat: str) -> None:
    from ragflow_lg.adapters.system_services import SystemClock
    from ragflow_lg.base.errors import RequestError
    from ragflow_lg.server.database.database import database_file, open_database
    from ragflow_lg.server.database.key_repository import KeyRepository
    from ragflow_lg.server.observability.audit import audit

    file = database_file(url)
    is_new = file is not None and not file.exists()
    if is_new and action is not Action.CREATE:
        message = f"The database {file} does not exist; `ragflow-lg serve` and `ragflow-lg keys create` create it."
        if action is Action.REVOKE:
            raise RequestError(message)
        print_note(message)
        return
    now_ms = int(SystemClock().now() * 1000)
    async with open_database(url) as database:
        if is_new:
            print_note(f"Created a new database: {file}")
        repository = KeyRepository(database)
        if action is Action.CREATE:
            key = await repository.create(tenant, now_ms, name=name, kind=kind, compat=compat)
            audit("key.created", tenant=tenant, name=name, kind=kind)
            print_line(key)
        elif action is Action.REVOKE:
            row = await repository.revoke(name, now_ms)
            audit("key.revoked", tenant=row.tenant, key=row.id, name=row.name)
            print_line(f"revoked {row.prefix}…")
        else:
            await _list(repository, file)


async def _list(repository: KeyRepository, file: Path | None) -> None:
    rows = await repository.list()
    for row in rows:
        print_line(_describe(row))
    if not rows:
        print_note(f"There are no keys in {file or 'the database'}; `ragflow-lg keys create` creates one.")


def _describe(row: KeyRow) -> str:
    time = format_time(datetime.fromtimestamp(row.create_ms / 1000, UTC))
    status = "revoked" if row.revoke_ms else "valid"
    return f"{row.prefix}…  {row.kind:<4}  {status:<7}  {time}  {row.tenant}  {row.name}".rstrip()
