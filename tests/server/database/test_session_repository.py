from __future__ import annotations

import asyncio
from pathlib import Path

from ragflow_lg.server.database.session_repository import SessionQuery, SessionRepository
from ragflow_lg.server.database.tables import MessageRow
from tests.server.database.rows import message, opened, session


async def test_sessions_are_found_by_what_is_known_of_them(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        sessions = SessionRepository(database, "t")
        await sessions.add(session("s1", create_ms=1, user_id="ada"), [message("s1", "about 100% wool")])
        await sessions.add(session("s2", create_ms=2, update_ms=0, exp_user_id="ben"), [])
        await sessions.add(session("s3", "other"), [])
        cases = [
            (SessionQuery(), ["s1", "s2"]),
            (SessionQuery(order="create", is_descending=True), ["s2", "s1"]),
            (SessionQuery(is_descending=False), ["s2", "s1"]),
            (SessionQuery(page=2, page_size=1), ["s2"]),
            (SessionQuery(id="s2"), ["s2"]),
            (SessionQuery(user_id="ada"), ["s1"]),
            (SessionQuery(exp_user_id="ben"), ["s2"]),
            (SessionQuery(keywords="100%"), ["s1"]),
            (SessionQuery(keywords="%%"), []),
            (SessionQuery(from_ms=2), ["s2"]),
            (SessionQuery(until_ms=1), ["s1"]),
        ]
        for query, ids in cases:
            assert [row.id for row in (await sessions.find("a1", query))[0]] == ids
        assert await sessions.ids("a1") == ["s1", "s2"]


async def test_a_turn_is_added(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        sessions = SessionRepository(database, "t")
        await sessions.add(session(), [message("s1", "Hello!")])
        for query in ("one", "two"):
            turn = [MessageRow(role=role, content=query, create_ms=5) for role in ("user", "assistant")]
            await sessions.add_turn("s1", turn, now_ms=7, tokens=3, seconds=0.5, error="")
        found = await sessions.get("s1")
        assert found is not None
        assert (found.tokens, found.rounds, found.duration_s, found.update_ms) == (6, 2, 1.0, 7)
        said = (await sessions.messages(["s1"]))["s1"]
        assert [(row.number, row.content) for row in said] == list(enumerate(["Hello!", "one", "one", "two", "two"]))
        await sessions.add_turn("gone", [MessageRow(role="user", create_ms=1)], now_ms=1, tokens=0, seconds=0, error="")


async def test_tenants_do_not_see_each_other(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        ours, theirs = SessionRepository(database, "us"), SessionRepository(database, "them")
        await ours.add(session(), [message("s1", "secret")])
        await theirs.add_turn("s1", [message("s1", "forged")], now_ms=1, tokens=1, seconds=1, error="")
        assert await theirs.get("s1") is None
        assert await theirs.find("a1", SessionQuery(keywords="secret")) == ([], 0)
        assert (await theirs.ids("a1"), await theirs.messages(["s1"])) == ([], {"s1": []})
        assert await theirs.delete("a1", "s1") is False
        assert await ours.delete("other", "s1") is False
        assert len((await ours.messages(["s1"]))["s1"]) == 1
        assert await ours.delete("a1", "s1") is True
        assert await ours.get("s1") is None


async def test_replicas_add_turns_side_by_side(tmp_path: Path) -> None:
    async with opened(tmp_path) as one, opened(tmp_path) as other:
        await SessionRepository(one, "t").add(session(), [])

        async def add(number: int) -> None:
            turn = [MessageRow(role=role, content=str(number), create_ms=5) for role in ("user", "assistant")]
            sessions = SessionRepository((one, other)[number % 2], "t")
            await sessions.add_turn("s1", turn, now_ms=7, tokens=1, seconds=0.5, error="")

        await asyncio.gather(*map(add, range(10)))
        found = await SessionRepository(other, "t").get("s1")
        assert found is not None
        assert (found.tokens, found.rounds) == (10, 10)
        said = (await SessionRepository(one, "t").messages(["s1"]))["s1"]
        assert [row.number for row in said] == list(range(20))
        assert [row.content for row in said[::2]] == [row.content for row in said[1::2]]
