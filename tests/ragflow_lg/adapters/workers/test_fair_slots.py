import asyncio
import random
from collections import Counter

from ragflow_lg.adapters.workers.fair_slots import FairSlots


async def test_waiting_tenants_take_turns() -> None:
    slots = FairSlots(1, 100)
    order: list[str] = []

    async def work(tenant: str) -> None:
        async with slots.slot(tenant):
            order.append(tenant)
            await asyncio.sleep(0)

    await asyncio.gather(*(work("a") for _ in range(4)), *(work("b") for _ in range(2)))

    assert order == ["a", "b", "a", "b", "a", "a"]


async def test_no_slot_is_lost_or_shared_when_waiting_tasks_are_cancelled() -> None:
    slots = FairSlots(3, 100)
    random_ = random.Random(7)
    inside: Counter[str] = Counter()

    async def work(tenant: str) -> None:
        async with slots.slot(tenant):
            inside[tenant] += 1
            assert inside.total() <= 3
            assert inside[tenant] <= 2
            try:
                await asyncio.sleep(random_.random() / 1000)
            finally:
                inside[tenant] -= 1

    tasks = [asyncio.create_task(work(random_.choice("abc"))) for _ in range(200)]
    for task in random_.sample(tasks, 80):
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    async with asyncio.timeout(1), slots.slot("a"), slots.slot("b"), slots.slot("a"):
        assert inside.total() == 0
