from ragflow_lg.server.database.database import open_database
from ragflow_lg.server.database.session_repository import RunRepository, SessionQuery, SessionRepository
from ragflow_lg.server.database.tables import RunRow
from ragflow_lg.services.chat import Usage
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


async def test_a_run_is_visible_to_its_tenant_only(database_url: str) -> None:
    async with open_database(database_url) as database:
        ours, theirs = RunRepository(database, "us"), RunRepository(database, "them")
        await ours.add(RunRow(id="r1", agent_id="a1", version_id="v1", session_id="s1", start_ms=1))
        await theirs.end("r1", "failed", "forged", Usage(9, 9, 9), 9)
        assert await theirs.get("r1") is None
        run = await ours.get("r1")
        assert run is not None
        assert (run.status, run.end_ms) == ("running", 0)
        await ours.end("r1", "succeeded", "", Usage(3, 4, 1), 8)
        run = await ours.get("r1")
        assert run is not None
        assert (run.status, run.prompt_tokens, run.completion_tokens, run.end_ms) == ("succeeded", 3, 4, 8)


async def test_runs_are_listed_newest_first(database_url: str) -> None:
    async with open_database(database_url) as database:
        ours = RunRepository(database, "us")
        for number, (agent, session) in enumerate((("a1", "s1"), ("a1", "s2"), ("a1", "s1"), ("a2", "s1")), 1):
            row = RunRow(id=f"r{number}", agent_id=agent, version_id="v", session_id=session, start_ms=number)
            await ours.add(row)

        async def find(repository: RunRepository, session: str, page: int, size: int) -> tuple[list[str], int]:
            rows, total = await repository.find("a1", session, page, size)
            return [row.id for row in rows], total

        assert await find(ours, "", 1, 2) == (["r3", "r2"], 3)
        assert await find(ours, "", 2, 2) == (["r1"], 3)
        assert await find(ours, "s1", 1, 9) == (["r3", "r1"], 2)
        assert await find(RunRepository(database, "them"), "", 1, 9) == ([], 0)
