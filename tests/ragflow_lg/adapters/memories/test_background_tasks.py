import asyncio

from ragflow_lg.adapters.memories.background_tasks import CONCURRENCY, MAX_TENANT, BackgroundTasks
from ragflow_lg.base.request_notes import RequestNotes, use_notes


async def test_the_tasks_of_a_tenant_neither_hold_all_places_nor_fill_the_queue() -> None:
    begun: list[str] = []
    opened = asyncio.Event()
    tasks = BackgroundTasks()

    def start(tenant: str, number: int) -> None:
        async def work() -> None:
            begun.append(tenant)
            await opened.wait()

        with use_notes(RequestNotes(tenant=tenant)):
            tasks.start((tenant, number), work)

    start("other", 0)
    for number in range(MAX_TENANT + 10):
        start("busy", number)
    start("other", 1)
    while len(begun) < CONCURRENCY:
        await asyncio.sleep(0)
    at_once = sorted(begun)
    opened.set()
    await tasks.settle()

    assert at_once == ["busy", "busy", "busy", "other"]
    assert begun.count("busy") == MAX_TENANT
    start("busy", 0)
    await tasks.settle()
    assert begun.count("busy") == MAX_TENANT + 1


async def test_a_task_with_the_name_of_another_one_does_not_start() -> None:
    count = 0
    tasks = BackgroundTasks()

    async def work() -> None:
        nonlocal count
        count += 1

    tasks.start("name", work)
    tasks.start("name", work)
    await tasks.settle()
    assert count == 1
