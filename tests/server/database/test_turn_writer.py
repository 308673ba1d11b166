import asyncio
from typing import Any

from msgspec.structs import replace

from ragflow_lg.server.database.agent_repository import AgentRepository
from ragflow_lg.server.database.database import Database, open_database
from ragflow_lg.server.database.session_repository import RunRepository, SessionRepository, TurnRows, read_turn_rows
from ragflow_lg.server.database.tables import RunRow
from ragflow_lg.server.database.turn_writer import ClosedRow, write_turn
from ragflow_lg.services.chat import Usage
from tests.server.database.rows import agent, message, session, version


def ended_turn(run_id: str = "r1", session_id: str = "s1", **values: Any) -> ClosedRow:
    usage = Usage(3, 4, 1)
    return ClosedRow(run_id, session_id, "failed", "odd", usage, 1000, 3000, "hi", "Hello", "[1]", **values)


def row(run_id: str = "r1", session_id: str = "s1") -> RunRow:
    return RunRow(id=run_id, agent_id="a1", version_id="v1", session_id=session_id, start_ms=1000)


async def test_a_question_is_among_the_messages_from_the_beginning_of_its_run(database: Database) -> None:
    sessions, runs = SessionRepository(database, "t"), RunRepository(database, "t")
    await sessions.add(session(), message("s1", "Welcome"))

    async def contents() -> list[str]:
        return [m.content for m in (await sessions.messages(["s1", "s2"]))["s1"]]

    for run_id, question, start_ms in (("dead", "lost?", 900), ("r1", "hi", 1000), ("r2", "more", 4000)):
        run = row(run_id)
        run.asked, run.start_ms = question, start_ms
        await runs.add(run)
    assert await contents() == ["Welcome", "lost?", "hi", "more"]
    assert (await SessionRepository(database, "other").messages(["s1"]))["s1"] == []
    await write_turn(database, "t", ended_turn())
    assert await contents() == ["Welcome", "lost?", "hi", "Hello", "more"]
    await runs.end("r2", "failed", "No journal.", Usage(), 4000)
    assert await contents() == ["Welcome", "lost?", "hi", "Hello"]


async def test_refused_runs_deleted_sessions_and_other_tenants_get_no_messages(database: Database) -> None:
    sessions, runs = SessionRepository(database, "t"), RunRepository(database, "t")
    await sessions.add(session())
    await runs.add(row())
    await write_turn(database, "t", ended_turn(has_begun=False))
    await write_turn(database, "t", ended_turn(session_id="gone"))
    await write_turn(database, "other", ended_turn())
    assert (await sessions.messages(["s1"]))["s1"] == []
    run = await runs.get("r1")
    assert run is not None
    assert run.end_ms == 3000


async def test_turns_that_replicas_end_at_once_each_get_their_numbers(database_url: str) -> None:
    async with open_database(database_url) as one, open_database(database_url) as other:
        await SessionRepository(one, "t").add(session())
        for number in range(8):
            await RunRepository(one, "t").add(row(f"r{number}"))
        await asyncio.gather(
            *(write_turn((one, other)[number % 2], "t", ended_turn(f"r{number}")) for number in range(8))
        )
        messages = (await SessionRepository(other, "t").messages(["s1"]))["s1"]
        stored = await SessionRepository(other, "t").get("s1")
        assert [m.number for m in messages] == list(range(16))
        assert [m.role for m in messages] == ["user", "assistant"] * 8
        assert [m.run_id for m in messages[::2]] == [m.run_id for m in messages[1::2]]
        assert stored is not None
        assert (stored.tokens, stored.rounds) == (56, 8)


async def test_a_run_that_is_taken_over_is_stored_once_whoever_ends_it_last(database_url: str) -> None:
    part = ended_turn(lease_token=1)
    whole = replace(part, status="succeeded", error="", answer="Hello you", reference="[2]", end_ms=5000)
    whole = replace(whole, lease_token=2, is_taken_over=True, usage=part.usage.plus(part.usage))
    async with open_database(database_url) as database:
        sessions, runs = SessionRepository(database, "t"), RunRepository(database, "t")
        orders = {"drained": [part, whole], "killed": [whole], "asleep": [whole, part], "both": [part, whole, part]}
        for name, turns in orders.items():
            await sessions.add(session(id=name), message(name, "Welcome"))
            await runs.add(row(name, name))
            for turn in turns:
                await write_turn(database, "t", replace(turn, run_id=name, session_id=name, continued_run=name))
            run, stored, messages = (
                await runs.get(name),
                await sessions.get(name),
                (await sessions.messages([name]))[name],
            )
            assert [(m.number, m.content, m.reference) for m in messages[1:]] == [
                (1, "hi", ""),
                (2, "Hello you", "[2]"),
            ]
            assert run is not None
            assert stored is not None
            assert (run.status, run.error, run.prompt_tokens) == ("succeeded", "", 6)
            assert (stored.rounds, stored.errors, stored.tokens) == (1, "", 14)
            assert (stored.duration_s, stored.update_ms) == (4.0, 5000)


def ids(rows: TurnRows | None) -> tuple[str | None, ...] | None:
    return None if rows is None else tuple(row.id if row is not None else None for row in rows)


async def test_an_agent_is_read_with_what_a_turn_needs(database: Database) -> None:
    agents, sessions = AgentRepository(database, "us"), SessionRepository(database, "us")
    await agents.create(agent(version="v2"), version("v2"))
    await agents.add(version("v1"))
    await sessions.add(session("s1", version_id="v1"))
    await sessions.add(session("s2", version_id="deleted"))
    for number, id_ in enumerate(("r1", "r2")):
        row = RunRow(id=id_, agent_id="a1", version_id="v1", session_id="s1", start_ms=number)
        await RunRepository(database, "us").add(row)

    assert ids(await read_turn_rows(database, "us", "a1")) == ("a1", None, "v2", None)
    assert ids(await read_turn_rows(database, "us", "a1", "s1")) == ("a1", "s1", "v1", "r2")
    assert ids(await read_turn_rows(database, "us", "a1", "s2")) == ("a1", "s2", "v2", None)
    assert ids(await read_turn_rows(database, "us", "a1", "unknown")) == ("a1", None, "v2", None)
    assert await read_turn_rows(database, "us", "unknown", "s1") is None
    assert await read_turn_rows(database, "them", "a1", "s1") is None
