import asyncio
from typing import Any

import pytest

from ragflow_lg.adapters.workers.fair_slots import FairSlots
from ragflow_lg.base.errors import WorkLimitError
from ragflow_lg.server.assembly.tenant_knowledge import FairKnowledge


class SlowKnowledge:
    """A dataset store whose searches end when they are allowed to."""

    def __init__(self) -> None:
        self.running = 0
        self.may_end = asyncio.Event()

    async def datasets(self, names_or_ids: Any) -> dict[str, Any]:
        return {}

    async def search(self, search: Any) -> Any:
        return await self.metadata(())

    async def metadata(self, datasets: Any) -> Any:
        self.running += 1
        await self.may_end.wait()
        self.running -= 1
        return {}


async def test_one_tenant_cannot_take_all_searches() -> None:
    knowledge, slots = SlowKnowledge(), FairSlots(3, 5, "for a search")
    noisy, quiet = FairKnowledge(knowledge, slots, "noisy"), FairKnowledge(knowledge, slots, "quiet")
    search: Any = None
    crowd = [asyncio.create_task(noisy.search(search)) for _ in range(7)]
    await asyncio.sleep(0.01)
    assert knowledge.running == 2
    with pytest.raises(WorkLimitError, match="5 tasks are already waiting for a search"):
        await noisy.metadata(())
    assert await noisy.datasets(["x"]) == {}
    quiet_search = asyncio.create_task(quiet.search(search))
    await asyncio.sleep(0.01)
    assert knowledge.running == 3
    knowledge.may_end.set()
    await asyncio.gather(*crowd, quiet_search)
