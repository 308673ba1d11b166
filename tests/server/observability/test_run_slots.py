from __future__ import annotations

import asyncio

import pytest

from ragflow_lg.base.errors import BusyError
from ragflow_lg.server.observability.run_slots import RunSlots


async def _soon() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_who_comes_later_waits_in_order() -> None:
    slots = RunSlots(1, max_waiting=2, wait_s=5)
    first = await slots.acquire("a")
    came: list[str] = []

    async def come(tenant: str) -> None:
        give_back = await slots.acquire(tenant)
        came.append(tenant)
        give_back()

    tasks = [asyncio.create_task(come(tenant)) for tenant in ("b", "c")]
    await _soon()
    assert (slots.in_use, slots.queue_length, came) == (1, 2, [])
    with pytest.raises(BusyError, match="server plays as many"):
        await slots.acquire("d")
    first()
    first()
    await asyncio.gather(*tasks)
    assert (slots.in_use, slots.queue_length, came) == (0, 0, ["b", "c"])


async def test_a_tenant_that_has_its_share_does_not_hold_others_up() -> None:
    slots = RunSlots(3, tenant_slots=1, max_waiting=5, wait_s=5)
    give_back = await slots.acquire("a")
    waiting = asyncio.create_task(slots.acquire("a"))
    await _soon()
    other = await slots.acquire("b")
    assert not waiting.done()
    give_back()
    (await waiting)()
    other()
    assert slots.in_use == 0


async def test_patience_ends() -> None:
    slots = RunSlots(1, tenant_slots=1, max_waiting=5, wait_s=0.01)
    give_back = await slots.acquire("a")
    with pytest.raises(BusyError, match="tenant plays as many") as caught:
        await slots.acquire("a")
    assert (caught.value.number, caught.value.status, caught.value.retry_s) == (429, 429, 1.0)
    assert slots.queue_length == 0
    give_back()
    assert slots.in_use == 0


async def test_who_goes_away_takes_no_place() -> None:
    slots = RunSlots(1, max_waiting=5, wait_s=5)
    give_back = await slots.acquire("a")
    gone, late = (asyncio.create_task(slots.acquire("b")) for _ in range(2))
    await _soon()
    gone.cancel()
    give_back()
    late.cancel()  # at the moment in which the place is given to it
    await asyncio.gather(gone, late, return_exceptions=True)
    assert (slots.in_use, slots.queue_length) == (0, 0)


async def test_nobody_waits_where_there_is_no_queue() -> None:
    slots = RunSlots(1)
    await slots.acquire("a")
    with pytest.raises(BusyError):
        await slots.acquire("a")
