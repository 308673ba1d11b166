import asyncio

from ragflow_lg.checkpoints.redis.redis_client import SearchSlots


async def test_a_tenant_rests_after_a_search_and_others_do_not_wait_for_it() -> None:
    slots, order = SearchSlots(), list[str]()

    async def search(tenant: str) -> None:
        async with slots.slot(tenant):
            order.append(tenant)
            await asyncio.sleep(0.05)

    first, *more = [asyncio.create_task(search("a")) for _ in range(3)]
    await first
    await search("b")
    await asyncio.gather(*more)
    assert order == ["a", "b", "a", "a"]


async def test_work_for_no_tenant_does_not_rest() -> None:
    slots, order = SearchSlots(), list[str]()

    async def search(name: str) -> None:
        async with slots.slot(""):
            order.append(name)
            await asyncio.sleep(0)

    await asyncio.gather(search("1"), search("2"))
    assert order == ["1", "2"]


async def test_a_search_that_is_cancelled_while_it_waits_leaves_the_slot_to_the_next() -> None:
    slots, is_done = SearchSlots(), asyncio.Event()

    async def search() -> None:
        async with slots.slot("a"):
            await is_done.wait()

    holder, waiting = asyncio.create_task(search()), asyncio.create_task(search())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    is_done.set()
    await holder
    await search()
