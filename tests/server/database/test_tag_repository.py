from __future__ import annotations

from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.database import open_database
from ragflow_lg.server.database.tag_repository import AgentTags
from tests.server.database.rows import agent, version


async def test_tags_are_counted_for_their_tenant_only(database_url: str) -> None:
    async with open_database(database_url) as database:
        await AgentRepository(database, "us").add(agent(), version())
        await AgentRepository(database, "us").add(agent("a2", "B", "v2", canvas_category="other"), version("v2", "a2"))
        ours, theirs = AgentTags(database, "us"), AgentTags(database, "them")
        await ours.set("a1", "shop,mail")
        await ours.set("a2", "shop")
        await theirs.set("a1", "stolen")
        assert await ours.counts() == {"shop": 2, "mail": 1}
        assert await ours.counts("other") == {"shop": 1}
        assert await theirs.counts() == {}
