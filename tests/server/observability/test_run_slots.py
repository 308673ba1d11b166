import asyncio

import pytest

from ragflow_lg.base.errors import BusyError
from ragflow_lg.server.observability.run_slots import Places, RunSlots


async def _let_tasks_run() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_later_runs_wait_in_order() -> None:
    slots = RunSlots(1, max_waiting=2, wait_s=5)
    first = await slots.acquire("a")
    order: list[str] = []

    async def run(tenant: str) -> None:
        release = await slots.acquire(tenant)
        order.append(tenant)
        release()

    tasks = [asyncio.create_task(run(tenant)) for tenant in ("b", "c")]
    await _let_tasks_run()
    assert (slots.in_use, slots.queue_length, order) == (1, 2, [])
    with pytest.raises(BusyError, match="server has reached its limit"):
        await slots.acquire("d")
    first()
    first()
    await asyncio.gather(*tasks)
    assert (slots.in_use, slots.queue_length, order) == (0, 0, ["b", "c"])


async def test_a_tenant_at_its_limit_does_not_delay_others() -> None:
    slots = RunSlots(3, tenant_slots=1, max_waiting=5, wait_s=5)
    release = await slots.acquire("a")
    waiting = asyncio.create_task(slots.acquire("a"))
    await _let_tasks_run()
    other = await slots.acquire("b")
    assert not waiting.done()
    release()
    (await waiting)()
    other()
    assert slots.in_use == 0


async def test_a_run_is_refused_after_waiting() -> None:
    slots = RunSlots(2, tenant_slots=1, max_waiting=5, wait_s=0.01)
    release = await slots.acquire("a")
    with pytest.raises(BusyError, match="tenant has used up its quota runs of 1") as caught:
        await slots.acquire("a")
    assert (caught.value.number, caught.value.status, caught.value.retry_s) == (429, 429, 1.0)
    assert slots.queue_length == 0
    release()
    assert slots.in_use == 0


async def test_a_cancelled_waiter_takes_no_slot() -> None:
    slots = RunSlots(1, max_waiting=5, wait_s=5)
    release = await slots.acquire("a")
    early, late = (asyncio.create_task(slots.acquire("b")) for _ in range(2))
    await _let_tasks_run()
    early.cancel()
    release()
    late.cancel()  # just when it is granted the slot
    await asyncio.gather(early, late, return_exceptions=True)
    assert (slots.in_use, slots.queue_length) == (0, 0)


async def test_without_a_queue_runs_are_refused_at_once() -> None:
    slots = RunSlots(1)
    await slots.acquire("a")
    with pytest.raises(BusyError):
        await slots.acquire("a")


async def test_long_inputs_wait_for_each_other_but_not_for_those_of_other_tenants() -> None:
    slots = RunSlots(100, max_waiting=10, wait_s=5, max_input_chars=100)
    release = await slots.acquire(Places("a", input_chars=70))
    waiting = asyncio.create_task(slots.acquire(Places("a", input_chars=60)))
    await _let_tasks_run()
    assert not waiting.done()
    with pytest.raises(BusyError, match="inputs of the concurrent runs are too long"):
        await slots.acquire(Places("a", input_chars=60))  # the waiting ones are too long together as well
    (await slots.acquire("a"))()  # a short one passes them
    other = await slots.acquire(Places("b", input_chars=1_000))
    release()
    await _let_tasks_run()
    assert waiting.done() is True
    (await waiting)()
    other()
    (await slots.acquire(Places("a", input_chars=1_000)))()  # a single input is limited elsewhere
    assert slots.in_use == 0
