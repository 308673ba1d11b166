"""``ragflow-lg keys``: the server's API keys."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, TypeAlias

import typer

from ragflow_lg.server.cli.options import SettingsFile
from ragflow_lg.server.cli.terminal import format_time, print_line, print_note

if TYPE_CHECKING:
    from ragflow_lg.server.database.database import Database
    from ragflow_lg.server.database.tables import KeyRow

_DAY_MS = 86_400_000


class _NewKey(NamedTuple):
    name: str
    tenant: str
    kind: str
    compat: str
    agents: list[str]
    expires: float
    """In days; 0 for never."""


Action: TypeAlias = Literal["create", "list", "revoke"]

_NAMES = {
    "create": "Enter what the key is for, such as: keys create laptop",
    "revoke": "Enter the key, its first characters, or its name.",
}
"""What to enter for an action that needs a name."""


def _read_compat(release: str | None) -> str | None:
    from ragflow_lg.dsl.compatibility import find_wire

    wire = find_wire(release)
    if not wire and release not in (None, "current"):
        raise typer.BadParameter("Enter a release of RAGFlow, such as 0.27 or 1.0, or current.")
    return wire or release


def keys(
    action: Annotated[Action, typer.Argument(help="What to do.")],
    name: Annotated[
        str, typer.Argument(help="create: purpose of the key. revoke: the key, its first characters, or its name.")
    ] = "",
    tenant: Annotated[str, typer.Option("--tenant", help="Tenant whose agents the key gives access to.")] = "default",
    beta: Annotated[bool, typer.Option("--beta", help="Create a key that is valid only for embedded pages.")] = False,
    compat: Annotated[
        str | None,
        typer.Option(
            "--compat",
            metavar="RELEASE",
            callback=_read_compat,
            help="Release of RAGFlow that the key's clients are written for, such as 0.24, 0.27 or 1.0. Default: "
            "current, as [compat] ragflow says.",
        ),
    ] = None,
    agent: Annotated[
        list[str] | None,
        typer.Option("--agent", help="Id or title of an agent that the pages of a key may use; repeatable."),
    ] = None,
    all_agents: Annotated[
        bool, typer.Option("--all-agents", help="Let the pages of a key use all agents, also later ones.")
    ] = False,
    expires: Annotated[
        float | None,
        typer.Option("--expires", help="Days after which the key becomes invalid. Default: never.", min=0, max=36500),
    ] = None,
    settings: SettingsFile = None,
) -> None:
    """Create, list and revoke API keys. A key is shown only once, when it is created.

    Examples:
    ragflow-lg keys create "web shop" --tenant shop

    ragflow-lg keys create "old SDK" --compat 0.24

    ragflow-lg keys create "shop window" --beta --agent "Shop assistant" --expires 90

    ragflow-lg keys revoke ragflow-Ab3dEf9h
    """
    import asyncio

    from ragflow_lg.server.observability.logs import open_audit
    from ragflow_lg.server.settings import load_settings

    if action in _NAMES and not name.strip():
        raise typer.BadParameter(_NAMES[action], param_hint="NAME")
    if (agent or all_agents) and not beta:
        raise typer.BadParameter("Only keys for pages can be limited to agents; add --beta.", param_hint="--agent")
    if beta and action == "create" and bool(agent) == all_agents:
        message = "Name the agents that the pages may use with --agent, or add --all-agents."
        raise typer.BadParameter(message, param_hint="--beta")
    if expires is not None and not expires > 0:
        raise typer.BadParameter("Enter a number of days greater than 0.", param_hint="--expires")
    new = _NewKey(name, tenant, "beta" if beta else "api", compat or "", agent or [], expires or 0)
    section = load_settings(settings).server
    url = section.database.get_secret_value()
    with open_audit(section.audit):
        asyncio.run(_perform(url, action, new))


async def _perform(url: str, action: Action, new: _NewKey) -> None:
    from ragflow_lg.adapters.system_services import SystemClock
    from ragflow_lg.base.errors import RequestError
    from ragflow_lg.server.database.database import database_file, open_database
    from ragflow_lg.server.database.key_repository import KeyRepository
    from ragflow_lg.server.observability.logs import audit

    file = database_file(url)
    is_new = file is not None and not file.exists()
    if is_new and action != "create":
        message = f"The database {file} does not exist; `ragflow-lg serve` and `ragflow-lg keys create` create it."
        if action == "revoke":
            raise RequestError(message)
        print_note(message)
        return
    now_ms = int(SystemClock().now() * 1000)
    async with open_database(url) as database:
        if is_new:
            print_note(f"Created a new database: {file}")
        repository = KeyRepository(database)
        if action == "create":
            print_line(await _create(database, new, now_ms))
        elif action == "revoke":
            row = await repository.revoke(new.name, now_ms)
            audit("key.revoked", tenant=row.tenant, key=row.id, name=row.name)
            print_line(f"revoked {row.prefix}…")
        else:
            rows = await repository.list()
            for row in rows:
                print_line(_describe(row, now_ms))
            if not rows:
                print_note(f"There are no keys in {file or 'the database'}; `ragflow-lg keys create` creates one.")


async def _create(database: Database, new: _NewKey, now_ms: int) -> str:
    from ragflow_lg.server.cli.server_database import find_agent
    from ragflow_lg.server.database.key_repository import KeyRepository
    from ragflow_lg.server.observability.logs import audit

    agents = [(await find_agent(database, new.tenant, name)).id for name in new.agents]
    key = await KeyRepository(database).create(
        new.tenant,
        now_ms,
        name=new.name,
        kind=new.kind,
        compat=new.compat,
        agents=agents,
        expire_ms=now_ms + max(1, int(new.expires * _DAY_MS)) if new.expires else 0,
    )
    audit("key.created", tenant=new.tenant, name=new.name, kind=new.kind)
    return key


def _describe(row: KeyRow, now_ms: int) -> str:
    status = "revoked" if row.revoke_ms else "valid" if row.is_valid(now_ms) else "expired"
    parts = [f"{row.prefix}…  {row.kind:<4}  {status:<7}  {_format_ms(row.create_ms)}  {row.tenant}", row.name]
    parts.append(f"compat {row.compat}" if row.compat else "")
    parts.append(f"expires {_format_ms(row.expire_ms)}" if row.expire_ms else "")
    parts.append(f"agents {row.agents}" if row.agents else "")
    return "  ".join(part for part in parts if part)


def _format_ms(time_ms: int) -> str:
    return format_time(datetime.fromtimestamp(time_ms / 1000, UTC))
