from ragflow_lg.server.database.database import open_database
from ragflow_lg.server.database.session_repository import SessionQuery, SessionRepository
from tests.server.database.rows import message, session


async def test_sessions_are_filtered_and_ordered(database_url: str) -> None:
    async with open_database(database_url) as database:
        sessions = SessionRepository(database, "t")
        await sessions.add(session("s1", create_ms=1, user_id="ada"), [message("s1", "about 100% wool")])
        await sessions.add(session("s2", create_ms=2, update_ms=0, exp_user_id="ben"), [])
        await sessions.add(session("s3", "other"), [])
        cases: list[tuple[SessionQuery, list[str]]] = [
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


async def test_tenants_do_not_see_each_other(database_url: str) -> None:
    async with open_database(database_url) as database:
        ours, theirs = SessionRepository(database, "us"), SessionRepository(database, "them")
        await ours.add(session(), [message("s1", "secret")])
        assert await theirs.get("s1") is None
        assert await theirs.find("a1", SessionQuery(keywords="secret")) == ([], 0)
        assert (await theirs.ids("a1"), await theirs.messages(["s1"])) == ([], {"s1": []})
        assert await theirs.delete("a1", "s1") is False
        assert await ours.delete("other", "s1") is False
        assert len((await ours.messages(["s1"]))["s1"]) == 1
        assert await ours.delete("a1", "s1") is True
        assert await ours.get("s1") is None
