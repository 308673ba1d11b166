import asyncio
from typing import Any

from msgspec.structs import replace

from ragflow_lg.server.database.database import open_database
from ragflow_lg.server.database.session_repository import RunRepository, SessionRepository
from ragflow_lg.server.database.tables import RunRow
from ragflow_lg.server.database.turn_writer import ClosedRow, write_turn
from ragflow_lg.services.chat import Usage
from tests.server.database.rows import message, session


def ended_turn(run_id: str = "r1", session_id: str = "s1", **values: Any) -> ClosedRow:
    usage = Usage(3, 4, 1)
    return ClosedRow(run_id, session_id, "failed", "odd", usage, 1000, 3000, "hi", "Hello", "[1]", **values)


def row(run_id: str = "r1", session_id: str = "s1") -> RunRow:
    return RunRow(id=run_id, agent_id="a1", version_id="v1", session_id=session_id, start_ms=1000)


async def test_a_turn_is_stored_with_its_run_and_added_to_its_session(database_url: str) -> None:
    async with open_database(database_url) as database:
        sessions, runs = SessionRepository(database, "t"), RunRepository(database, "t")
        await sessions.add(session(), [message("s1", "Welcome")])
        await runs.add(row())
        await write_turn(database, "t", ended_turn())
        run, stored, messages = await runs.get("r1"), await sessions.get("s1"), (await sessions.messages(["s1"]))["s1"]
        assert run is not None
        assert (run.status, run.error, run.prompt_tokens, run.completion_tokens) == ("failed", "odd", 3, 4)
        assert stored is not None
        assert (stored.tokens, stored.rounds, stored.duration_s, stored.errors, stored.update_ms) == (
            7,
            1,
            2.0,
            "odd",
            3000,
        )
        assert [(m.number, m.role, m.content, m.run_id, m.reference, m.create_ms) for m in messages[1:]] == [
            (1, "user", "hi", "r1", "", 1000),
            (2, "assistant", "Hello", "r1", "[1]", 3000),
        ]


async def test_a_question_is_among_the_messages_from_the_beginning_of_its_run(database_url: str) -> None:
    async with open_database(database_url) as database:
        sessions, runs = SessionRepository(database, "t"), RunRepository(database, "t")
        await sessions.add(session(), [message("s1", "Welcome")])

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


async def test_refused_runs_deleted_sessions_and_other_tenants_get_no_messages(database_url: str) -> None:
    async with open_database(database_url) as database:
        sessions, runs = SessionRepository(database, "t"), RunRepository(database, "t")
        await sessions.add(session(), [])
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
        await SessionRepository(one, "t").add(session(), [])
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
            await sessions.add(session(id=name), [message(name, "Welcome")])
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
