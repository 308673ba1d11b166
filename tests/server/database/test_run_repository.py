from ragflow_lg.server.database.database import open_database
from ragflow_lg.server.database.run_repository import RunRepository
from ragflow_lg.server.database.tables import RunRow
from ragflow_lg.services.chat import Usage


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
