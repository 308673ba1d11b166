from __future__ import annotations

from pathlib import Path

from ragflow_lg.services import Usage
from server.database.models import RunRow
from server.database.runs import RunRepository
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
