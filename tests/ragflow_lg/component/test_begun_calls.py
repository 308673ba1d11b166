import asyncio

from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.begun_calls import BegunCall, BegunCalls
from ragflow_lg.component.node_steps import MemorySteps

PAY, SEND = BegunCall("m1", "r1", "Pay", {"to": 1}), BegunCall("m2", "r2", "Send")


class SlowFirst(MemorySteps):
    """Steps whose first write takes longer than the later ones."""

    writes = 0

    async def put(self, key: str, value: JsonValue) -> None:
        self.writes += 1
        for _ in range(5 if self.writes == 1 else 0):
            await asyncio.sleep(0)
        await super().put(key, value)


async def test_another_process_learns_what_has_begun() -> None:
    steps = MemorySteps()
    first = BegunCalls(steps, "task")
    for call in (PAY, SEND):
        await first.add(call)
    again = BegunCalls(steps, "task")
    assert not again.contain("m1")
    assert await again.load() == [PAY, SEND]
    assert again.contain("m1")
    assert again.contain("m2")
    assert await BegunCalls(steps, "other").load() == []


async def test_a_call_that_may_be_repeated_may_start_once() -> None:
    steps = MemorySteps()
    await BegunCalls(steps, "task").add(PAY)
    begun = BegunCalls(steps, "task")
    await begun.load()
    begun.allow_repeat("m1")
    assert not begun.contain("m1")
    await begun.add(PAY)
    assert begun.contain("m1")
    assert await BegunCalls(steps, "task").load() == [PAY, PAY]


async def test_a_result_is_found_by_the_key_of_its_step() -> None:
    steps = MemorySteps()
    await steps.put("r1", None)
    begun = BegunCalls(steps, "task")
    assert await begun.has_result(PAY)
    assert not await begun.has_result(SEND)


async def test_a_slow_write_hides_no_call_that_began_beside_it() -> None:
    steps = SlowFirst()
    begun = BegunCalls(steps, "task")
    first, second = asyncio.ensure_future(begun.add(PAY)), asyncio.ensure_future(begun.add(SEND))
    while not second.done():
        assert first.done() or not begun.contain("m2")
        await asyncio.sleep(0)
    assert await BegunCalls(steps, "task").load() == [PAY, SEND]
