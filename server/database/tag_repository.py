"""Tags of a tenant's agents."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from sqlalchemy import select, update

from ragflow_lg.server.database.tables import AgentRow

if TYPE_CHECKING:
    from ragflow_lg.server.database.database import Database

__all__ = ["AgentTags"]


class AgentTags:
    """The tags of one tenant's agents, joined by commas in the column ``tags``."""

    def __init__(self, database: Database, tenant: str) -> None:
        self._database = database
        self._tenant = tenant

    async def counts(self, category: str = "") -> Counter[str]:
        """Count the agents by tag, in one category if it is given."""
        statement = select(AgentRow.tags).where(AgentRow.tenant == self._tenant, AgentRow.tags != "")
        if category:
            statement = statement.where(AgentRow.canvas_category == category)
        async with self._database.reading() as db:
            return Counter(tag for tags in await db.scalars(statement) for tag in tags.split(","))

    async def set(self, agent_id: str, tags: str) -> None:
        """Replace the tags of an agent."""
        selection = update(AgentRow).where(AgentRow.tenant == self._tenant, AgentRow.id == agent_id)
        async with self._database.writing() as db:
            await db.execute(selection.values(tags=tags))
