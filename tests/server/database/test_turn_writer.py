from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ragflow_lg.server.database.run_repository import RunRepository
from ragflow_lg.server.database.session_repository import SessionRepository
from ragflow_lg.server.database.tables import RunRow
from ragflow_lg.server.database.turn_writer import EndedTurn, write_turn
from ragflow_lg.services.chat import Usage
from tests.server.database.rows import message, opened, session


def ended(run_id: str = "r1", session_id: str = "s1", **values: Any) -> EndedTurn:
    usage = Usage(3, 4, 1)
    return EndedTurn(run_id, session_id, "failed", "odd", usage, 1000, 3000, "hi", "Hello", "[1]", **values)


def row(run_id: str = "r1") -> RunRow:
    return RunRow(id=run_id, agent_id="a1", version_id="v1", session_id="s1", start_ms=1000)


async def test_a_turn_is_stored_with_its_run_and_added_to_its_session(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        sessions, runs = SessionRepository(database, "t"), RunRepository(database, "t")
        await sessions.add(session(), [message("s1", "Welcome")])
        await runs.add(row())
        await write_turn(database, "t", ended())
        run, kept, said = await runs.get("r1"), await sessions.get("s1"), (await sessions.messages(["s1"]))["s1"]
        assert run is not None
        assert (run.status, run.error, run.prompt_tokens, run.completion_tokens) == ("failed", "odd", 3, 4)
        assert kept is not None
        assert (kept.tokens, kept.rounds, kept.duration_s, kept.errors, kept.update_ms) == (7, 1, 2.0, "odd", 3000)
        assert [(m.number, m.role, m.content, m.run_id, m.reference, m.create_ms) for m in said[1:]] == [
            (1, "user", "hi", "r1", "", 1000),
            (2, "assistant", "Hello", "r1", "[1]", 3000),
        ]


async def test_a_question_stands_in_its_session_from_the_beginning_of_its_run(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        sessions, runs = SessionRepository(database, "t"), RunRepository(database, "t")
        await sessions.add(session(), [message("s1", "Welcome")])

        async def said() -> list[str]:
            return [m.content for m in (await sessions.messages(["s1", "s2"]))["s1"]]

        for run_id, asked, start_ms in (("dead", "lost?", 900), ("r1", "hi", 1000), ("r2", "more", 4000)):
            begun = row(run_id)
            begun.asked, begun.start_ms = asked, start_ms
            await runs.add(begun)
        assert await said() == ["Welcome", "lost?", "hi", "more"]
        assert (await SessionRepository(database, "other").messages(["s1"]))["s1"] == []
        await write_turn(database, "t", ended())
        assert await said() == ["Welcome", "lost?", "hi", "Hello", "more"]
        await runs.end("r2", "failed", "No journal.", Usage(), 4000)
        assert await said() == ["Welcome", "lost?", "hi", "Hello"]


async def test_of_a_refused_run_a_lost_session_or_another_tenant_nothing_is_said(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        sessions, runs = SessionRepository(database, "t"), RunRepository(database, "t")
        await sessions.add(session(), [])
        await runs.add(row())
        await write_turn(database, "t", ended(has_begun=False))
        await write_turn(database, "t", ended(session_id="gone"))
        await write_turn(database, "other", ended())
        assert (await sessions.messages(["s1"]))["s1"] == []
        run = await runs.get("r1")
        assert run is not None
        assert run.end_ms == 3000


async def test_turns_that_end_at_once_each_get_their_numbers(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        await SessionRepository(database, "t").add(session(), [])
        for number in range(8):
            await RunRepository(database, "t").add(row(f"r{number}"))
        await asyncio.gather(*(write_turn(database, "t", ended(f"r{number}")) for number in range(8)))
        said = (await SessionRepository(database, "t").messages(["s1"]))["s1"]
        assert [m.number for m in said] == list(range(16))
        assert [m.role for m in said] == ["user", "assistant"] * 8


async def test_a_run_that_is_taken_over_is_said_once_whoever_ends_it_last(tmp_path: Path) -> None:
    part = ended(lease_token=1)
    whole = replace(part, status="succeeded", error="", answered="Hello you", reference="[2]", end_ms=5000)
    whole = replace(whole, lease_token=2, is_taken_over=True)
    async with opened(tmp_path) as database:
        sessions, runs = SessionRepository(database, "t"), RunRepository(database, "t")
        orders = {"drained": [part, whole], "killed": [whole], "asleep": [whole, part], "both": [part, whole, part]}
        for name, turns in orders.items():
            await sessions.add(session(id=name), [message(name, "Welcome")])
            await runs.add(row(name))
            for turn in turns:
                await write_turn(database, "t", replace(turn, run_id=name, session_id=name))
            run, kept, said = await runs.get(name), await sessions.get(name), (await sessions.messages([name]))[name]
            assert [(m.number, m.content, m.reference) for m in said[1:]] == [(1, "hi", ""), (2, "Hello you", "[2]")]
            assert run is not None
            assert kept is not None
            asked_twice = turns[0] is part  # models have been asked by both
            assert (run.status, run.error, run.prompt_tokens) == ("succeeded", "", 6 if asked_twice else 3)
            assert (kept.rounds, kept.errors, kept.tokens) == (1, "", 14 if asked_twice else 7)
            assert (kept.duration_s, kept.update_ms) == (4.0, 5000)
