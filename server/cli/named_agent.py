"""The agent that a command names, by its id or its title."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragflow_lg.server.database.database import Database
    from ragflow_lg.server.database.tables import AgentRow

_SHOWN = 10


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
