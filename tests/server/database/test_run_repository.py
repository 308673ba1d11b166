from __future__ import annotations

from pathlib import Path

from ragflow_lg.server.database.run_repository import RunRepository
from ragflow_lg.server.database.tables import RunRow
from ragflow_lg.services.chat import Usage
from tests.server.database.rows import opened


async def test_a_run_begins_and_ends_for_its_tenant_only(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
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


async def test_runs_are_listed_newest_first(tmp_path: Path) -> None:
    async with opened(tmp_path) as database:
        ours = RunRepository(database, "us")
        for number, (agent, session) in enumerate((("a1", "s1"), ("a1", "s2"), ("a1", "s1"), ("a2", "s1")), 1):
            row = RunRow(id=f"r{number}", agent_id=agent, version_id="v", session_id=session, start_ms=number)
            await ours.add(row)

        async def found(repository: RunRepository, session: str, page: int, size: int) -> tuple[list[str], int]:
            rows, total = await repository.find("a1", session, page, size)
            return [row.id for row in rows], total

        assert await found(ours, "", 1, 2) == (["r3", "r2"], 3)
        assert await found(ours, "", 2, 2) == (["r1"], 3)
        assert await found(ours, "s1", 1, 9) == (["r3", "r1"], 2)
        assert await found(RunRepository(database, "them"), "", 1, 9) == ([], 0)
