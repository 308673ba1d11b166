"""``ragflow-lg keys``: API keys of the server."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from ragflow_lg.server.cli.options import SettingsFile
from ragflow_lg.server.cli.terminal import printable, shown_time

if TYPE_CHECKING:
    from pathlib import Path

    from ragflow_lg.server.database.key_repository import KeyRepository
    from ragflow_lg.server.database.tables import KeyRow

__all__ = ["keys"]


class Action(StrEnum):
    """What to do."""

    CREATE = "create"
    LIST = "list"
    REVOKE = "revoke"


class Compat(StrEnum):
    """Shapes of answers."""

    CURRENT = "current"
    OLD = "0.24"


def keys(
    action: Annotated[Action, typer.Argument(help="What to do.")],
    name: Annotated[
        str, typer.Argument(help="create: what the key is for. revoke: the key, its beginning, or its name.")
    ] = "",
    tenant: Annotated[str, typer.Option("--tenant", help="Whose agents it opens.")] = "default",
    beta: Annotated[bool, typer.Option("--beta", help="A key for embedded pages: it opens nothing else.")] = False,
    compat: Annotated[
        Compat | None, typer.Option("--compat", help="Shapes that its clients expect. Default: [server] compat.")
    ] = None,
    settings: SettingsFile = None,
) -> None:
    """Make, list and revoke API keys. A key is shown when it is made, and never again.

    Examples:
    ragflow-lg keys create "web shop" --tenant shop

    ragflow-lg keys create "old SDK" --compat 0.24

    ragflow-lg keys revoke ragflow-Ab3dEf9h
    """
    import asyncio

    from ragflow_lg.server.observability.audit import open_audit
    from ragflow_lg.server.settings import load_settings

    if action is Action.REVOKE and not name:
        raise typer.BadParameter("Give the key, its beginning, or its name.", param_hint="NAME")
    section = load_settings(settings).server
    url = section.database.get_secret_value()
    with open_audit(section.audit):
        asyncio.run(_do(url, action, name, tenant, "beta" if beta else "api", compat.value if compat else ""))


async def _do(url: str, action: Action, name: str, tenant: str, kind: str, compat: str) -> None:
    from ragflow_lg.adapters.system_services import SystemClock
    from ragflow_lg.base.errors import RequestError
    from ragflow_lg.server.database.database import database_file, open_database
    from ragflow_lg.server.database.key_repository import KeyRepository
    from ragflow_lg.server.observability.audit import audit

    file = database_file(url)
    is_new = file is not None and not file.exists()
    if is_new and action is not Action.CREATE:
        told = f"There is no database {file}; `ragflow-lg serve` and `ragflow-lg keys create` make one."
        if action is Action.REVOKE:
            raise RequestError(told)
        _note(told)
        return
    now_ms = int(SystemClock().now() * 1000)
    async with open_database(url) as database:
        if is_new:
            _note(f"a new database was made: {file}")
        known = KeyRepository(database)
        if action is Action.CREATE:
            key = await known.create(tenant, now_ms, name=name, kind=kind, compat=compat)
            audit("key.created", tenant=tenant, name=name, kind=kind)
            _tell(key)
        elif action is Action.REVOKE:
            row = await known.revoke(name, now_ms)
            audit("key.revoked", tenant=row.tenant, key=row.id, name=row.name)
            _tell(f"revoked {row.prefix}…")
        else:
            await _list(known, file)


async def _list(known: KeyRepository, file: Path | None) -> None:
    rows = await known.list()
    for row in rows:
        _tell(_line(row))
    if not rows:
        _note(f"There are no keys in {file or 'the database'}; `ragflow-lg keys create` makes one.")


def _line(row: KeyRow) -> str:
    made = shown_time(datetime.fromtimestamp(row.create_ms / 1000, UTC))
    status = "revoked" if row.revoke_ms else "holds"
    return f"{row.prefix}…  {row.kind:<4}  {status:<7}  {made}  {row.tenant}  {row.name}".rstrip()


def _tell(line: str) -> None:
    sys.stdout.write(printable(line) + "\n")


def _note(line: str) -> None:
    sys.stderr.write(printable(line) + "\n")
