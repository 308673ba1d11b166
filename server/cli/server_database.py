"""The server's database as commands use it, and the agents that they name."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragflow_lg.server.database.database import Database
    from ragflow_lg.server.database.tables import AgentRow
    from ragflow_lg.server.settings import Settings

_SHOWN = 10


@asynccontextmanager
async def open_server_database(settings: Settings, *, creates: bool = False) -> AsyncGenerator[Database | None]:
    """Open the database of the settings. If no server has been started here, yield None, unless it ``creates`` one."""
    from ragflow_lg.checkpoints.key_ring import make_key_ring
    from ragflow_lg.server.database.database import database_file, open_database

    url = settings.server.database.get_secret_value()
    if not creates and (file := database_file(url)) is not None and not file.exists():
        yield None
        return
    async with open_database(url, make_key_ring(settings.store_options["keys"])) as database:
        yield database


async def find_agent(database: Database, tenant: str, name: str) -> AgentRow:
    """Return a tenant's agent with this id, or else the only one with this title.

    Raises:
        RequestError: If there is none, or more than one. The message lists agents.
    """
    from ragflow_lg.base.errors import RequestError
    from ragflow_lg.server.database.agent_repository import AgentQuery, AgentRepository

    agents = AgentRepository(database, tenant)
    if (agent := await agents.get(name)) is not None:
        return agent
    same, count = await agents.find(AgentQuery(title=name, page_size=_SHOWN)) if name else ([], 0)
    if count == 1:
        return same[0]
    if count:
        raise RequestError(f"{count} agents have the title {name[:64]!r}; use an id: {_list(same, count)}.")
    others, count = await agents.find(AgentQuery(page_size=_SHOWN))
    found = f"Its agents: {_list(others, count)}" if others else "It has no agents"
    raise RequestError(f"The tenant {tenant!r} has no agent with the id or the title {name[:64]!r}. {found}.")


def _list(agents: list[AgentRow], count: int) -> str:
    more = f" and {count - len(agents)} more" if count > len(agents) else ""
    return ", ".join(f"{agent.id} ({agent.title[:64]!r})" for agent in agents) + more
