from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.database import open_database
from ragflow_lg.server.database.session_repository import RunRepository, SessionRepository
from ragflow_lg.server.database.tables import RunRow
from ragflow_lg.server.database.turn_rows import TurnRows, read_turn_rows
from tests.server.database.rows import agent, session, version


def ids(rows: TurnRows | None) -> tuple[str | None, ...] | None:
    return None if rows is None else tuple(row.id if row is not None else None for row in rows)


async def test_an_agent_is_read_with_what_a_turn_needs(database_url: str) -> None:
    async with open_database(database_url) as database:
        agents, sessions = AgentRepository(database, "us"), SessionRepository(database, "us")
        await agents.add(agent(version="v2"), version("v2"))
        await agents.add_version(version("v1"))
        await sessions.add(session("s1", version_id="v1"), [])
        await sessions.add(session("s2", version_id="deleted"), [])
        for number, id_ in enumerate(("r1", "r2")):
            row = RunRow(id=id_, agent_id="a1", version_id="v1", session_id="s1", start_ms=number)
            await RunRepository(database, "us").add(row)

        assert ids(await read_turn_rows(database, "us", "a1")) == ("a1", None, "v2", None)
        assert ids(await read_turn_rows(database, "us", "a1", "s1")) == ("a1", "s1", "v1", "r2")
        assert ids(await read_turn_rows(database, "us", "a1", "s2")) == ("a1", "s2", "v2", None)
        assert ids(await read_turn_rows(database, "us", "a1", "unknown")) == ("a1", None, "v2", None)
        assert await read_turn_rows(database, "us", "unknown", "s1") is None
        assert await read_turn_rows(database, "them", "a1", "s1") is None


async def test_the_version_of_another_agent_is_not_read(database_url: str) -> None:
    async with open_database(database_url) as database:
        agents = AgentRepository(database, "us")
        await agents.add(agent(), version())
        await agents.add(agent("a2", "Other", "v2"), version("v2", "a2"))
        await SessionRepository(database, "us").add(session("s2", "a2", version_id="v2"), [])
        assert ids(await read_turn_rows(database, "us", "a1", "s2")) == ("a1", "s2", "v1", None)
