from __future__ import annotations

import asyncio
from pathlib import Path

from ragflow_lg.services import Usage
from server.database.kept_turns import EndedTurn, keep_turn
from server.database.models import RunRow
from server.database.runs import RunRepository
from server.database.sessions import SessionRepository
from tests.server.database.rows import message, opened, session


def ended(run_id: str = "r1", session_id: str = "s1", **values: bool) -> EndedTurn:
    usage = Usage(3, 4, 1)
    return EndedTurn(run_id, session_id, "failed", "odd", usage, 1000, 3000, "hi", "Hello", "[1]", **values)


def row(run_id: str = "r1") -> RunRow:
    return RunRow(id=run_id, agent_id="a1", version_id="v1", session_id="s1", start_ms=1000)


async def test_a_turn_is_stored_with_its_run_and_added_to_its_session(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        sessions, runs = SessionRepository(database, "t"), RunRepository(database, "t")
        await sessions.add(session(), [message("s1", "Welcome")])
        await runs.add(row())
        await keep_turn(database, "t", ended())
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
        await keep_turn(database, "t", ended())
        assert await said() == ["Welcome", "lost?", "hi", "Hello", "more"]
        await runs.end("r2", "failed", "No journal.", Usage(), 4000)
        assert await said() == ["Welcome", "lost?", "hi", "Hello"]


async def test_of_a_refused_run_a_lost_session_or_another_tenant_nothing_is_said(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        sessions, runs = SessionRepository(database, "t"), RunRepository(database, "t")
        await sessions.add(session(), [])
        await runs.add(row())
        await keep_turn(database, "t", ended(has_begun=False))
        await keep_turn(database, "t", ended(session_id="gone"))
        await keep_turn(database, "other", ended())
        assert (await sessions.messages(["s1"]))["s1"] == []
        run = await runs.get("r1")
        assert run is not None
        assert run.end_ms == 3000


async def test_turns_that_end_at_once_each_get_their_numbers(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        await SessionRepository(database, "t").add(session(), [])
        await asyncio.gather(*(keep_turn(database, "t", ended(f"r{number}")) for number in range(8)))
        said = (await SessionRepository(database, "t").messages(["s1"]))["s1"]
        assert [m.number for m in said] == list(range(16))
        assert [m.role for m in said] == ["user", "assistant"] * 8
