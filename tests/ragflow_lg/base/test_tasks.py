import asyncio
from contextlib import suppress

import pytest

from ragflow_lg.base import tasks
from ragflow_lg.base.request_notes import RequestNotes, current_notes, use_notes
from ragflow_lg.base.tasks import SharedTask, end_task, running, work_until


async def test_a_task_cleans_up_undisturbed() -> None:
    stored = list[str]()

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.2)
            stored.append("tokens")

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    await end_task(task)
    assert stored == ["tokens"]


async def test_a_task_that_swallows_cancellations_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "RETRY_S", 0.05)

    async def stubborn() -> None:
        for _ in range(2):
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(60)
        await asyncio.sleep(60)

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await end_task(task)
        await end_task(task)
    assert task.cancelled()


async def test_work_runs_beside_a_block_and_ends_with_it() -> None:
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    async with running(work, "work"):
        await asyncio.sleep(0)
        assert not ended.is_set()
    assert ended.is_set()


async def test_a_block_does_not_learn_of_an_error_of_the_work() -> None:
    async def work() -> None:
        raise ValueError("It fails.")

    async with running(work, "work"):
        await asyncio.sleep(0)


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
        go_on.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not task.is_running
        task.start()
    await task.aclose()
    await task.aclose()
    assert tenants in ([""], ["", ""])
    assert not task.is_running


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


async def test_an_error_of_the_work_is_raised() -> None:
    async def fail() -> None:
        raise ValueError("It fails.")

    with pytest.raises(ValueError, match="It fails"):
        await work_until(fail(), asyncio.Event(), 60)


async def test_work_that_swallows_a_cancellation_ends_with_its_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "RETRY_S", 0.05)

    async def work() -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        await asyncio.sleep(60)

    async with asyncio.timeout(60):
        async with running(work, "work"):
            await asyncio.sleep(0)
        stop = asyncio.Event()
        stop.set()
        await work_until(work(), stop, 60)
