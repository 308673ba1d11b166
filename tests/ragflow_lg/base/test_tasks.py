import asyncio
from contextlib import suppress

import pytest

from ragflow_lg.base import tasks
from ragflow_lg.base.request_notes import RequestNotes, current_notes, use_notes
from ragflow_lg.base.tasks import SharedTask, end_task, running, work_until


async def stubborn() -> None:
    """Swallow two cancellations."""
    for _ in range(2):
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
    await asyncio.sleep(60)


async def test_a_task_cleans_up_undisturbed() -> None:
    stored = list[str]()

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)
            stored.append("tokens")

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    await end_task(task)
    assert stored == ["tokens"]


async def test_work_that_swallows_cancellations_ends_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "RETRY_S", 0.05)
    task, stop = asyncio.create_task(stubborn()), asyncio.Event()
    async with asyncio.timeout(60):
        async with running(stubborn, "work"):
            await asyncio.sleep(0)
        await end_task(task)
        await end_task(task)
        stop.set()
        await work_until(stubborn(), stop, 60)
    assert task.cancelled()


async def test_a_shared_task_starts_once_at_a_time_and_knows_no_request() -> None:
    tenants, go_on = list[str](), asyncio.Event()

    async def work() -> None:
        tenants.append(current_notes().tenant)
        await go_on.wait()

    task = SharedTask(work)
    with use_notes(RequestNotes(tenant="acme")):
        task.start()
        task.start()
        await asyncio.sleep(0)
        assert task.is_running
    await task.aclose()
    await task.aclose()
    assert (tenants, task.is_running) == ([""], False)


async def test_work_goes_on_until_it_is_done_the_event_is_set_or_the_time_is_over() -> None:
    ends = list[str]()

    async def work(name: str, seconds: float) -> None:
        try:
            await asyncio.sleep(seconds)
            ends.append(f"{name} done")
        except asyncio.CancelledError:
            ends.append(f"{name} cancelled")
            raise

    stop = asyncio.Event()
    await work_until(work("first", 0), stop, 60)
    await work_until(work("second", 60), stop, 0.01)
    stop.set()
    await work_until(work("third", 60), stop, 60)
    assert ends == ["first done", "second cancelled", "third cancelled"]
