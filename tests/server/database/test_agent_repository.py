import pytest

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.database.agent_repository import MAX_DRAFTS, AgentQuery, AgentRepository
from ragflow_lg.server.database.database import Database
from ragflow_lg.server.database.session_repository import SessionRepository
from tests.server.database.rows import agent, session, version


async def test_agents_are_filtered_and_ordered(database: Database) -> None:
    agents = AgentRepository(database, "t")
    for number, title in enumerate(["Beta", "alpha", "Gamma_1"]):
        id_ = f"a{number}"
        await agents.create(
            agent(id_, title, create_ms=number, canvas_type=title, tags=f"Tag{number}"), version(f"v{number}", id_)
        )
    cases = {
        ("a2", "a1", "a0"): AgentQuery(),
        ("a1", "a0", "a2"): AgentQuery(order="title", is_descending=False),
        ("a0",): AgentQuery(page=3, page_size=1),
        ("a1",): AgentQuery(keywords="ALPHA"),
        ("a2",): AgentQuery(keywords="_"),
        (): AgentQuery(title="nobody"),
    }
    for ids, query in cases.items():
        rows, _ = await agents.find(query)
        assert tuple(row.id for row in rows) == ids
    one = AgentQuery(id="a1", title="alpha", categories=["agent_canvas"], canvas_type="alpha", page_size=1)
    assert (await agents.find(one))[1] == 1
    assert (await agents.find(AgentQuery(page_size=1)))[1] == 3
    assert [row.id for row in (await agents.find(AgentQuery(keywords="tAG0")))[0]] == ["a0"]


async def test_versions_that_nobody_needs_are_dropped(database: Database) -> None:
    agents = AgentRepository(database, "t")
    await agents.create(agent(), version(is_released=True))
    for number in range(2, MAX_DRAFTS + 5):
        await agents.change("a1", {}, version(f"v{number}", create_ms=number))
        if number == 2:
            await SessionRepository(database, "t").add(session(version_id="v2"))
    stored = await agents.versions([f"v{number}" for number in range(1, MAX_DRAFTS + 5)])
    assert len(stored) == MAX_DRAFTS + 3  # the released one, the one of a session, and the current draft
    assert {"v1", "v2"} <= set(stored)
    assert "v3" not in stored
    await agents.release("a1", "v9", 99)
    released = await agents.released("a1")
    assert released is not None
    assert released.id == "v9"
    assert await agents.release_times(["a1", "a2"]) == {"a1": released.update_ms}


async def test_a_title_taken_by_a_concurrent_writer_is_refused(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    agents = AgentRepository(database, "t")
    await agents.create(agent(), version())
    await database.add(agent("a2", "Other", "v2", title_key="new", tenant="t"))  # after the check of another replica

    async def find_no_duplicate(*_: object) -> None:
        pass

    monkeypatch.setattr(agents, "_refuse_duplicate", find_no_duplicate)
    with pytest.raises(RequestError, match="'New' already exists"):
        await agents.change("a1", {"title": "New", "title_key": "new"}, None)
