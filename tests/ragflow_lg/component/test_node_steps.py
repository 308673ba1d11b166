import asyncio

from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.context import RunContext
from ragflow_lg.component.node_values import BegunCall, BegunCalls, MemorySteps
from ragflow_lg.component.turn_context import NestedVisits, TurnContext
from tests.fakes.canvas import canvas, plan_of, text
from tests.fakes.services import fake_services

PLAN = plan_of(canvas({"a": text()}))
PAY, SEND = BegunCall("m1", "r1", "Pay", {"to": 1}), BegunCall("m2", "r2", "Send")


def context() -> RunContext:
    return RunContext(PLAN, PLAN.nodes[NodeId("a")], TurnContext(fake_services()), {})


async def test_a_mark_shows_what_has_begun_in_this_visit_and_its_tools() -> None:
    ctx = context()
    payment: dict[str, JsonValue] = {"to": 1}
    await ctx.begin("pay", payment, "0.1")
    assert ctx.has_begun("pay", payment, "0.1")
    assert not ctx.has_begun("send", payment, "0.1")
    assert not ctx.has_begun("pay", {"to": 2}, "0.1")
    assert not ctx.has_begun("pay", payment, "0.2")
    one, again, other_child = (ctx.child(ctx.node, position) for position in ("1.0", "1.0", "1.1"))
    await one.begin("pay", {}, "0")
    assert again.has_begun("pay", {}, "0")
    assert not other_child.has_begun("pay", {}, "0")
    assert not context().has_begun("pay", payment, "0.1")


async def test_without_a_store_only_steps_in_memory_are_not_repeated() -> None:
    ctx, calls = context(), list[str]()

    async def call() -> str:
        calls.append("x")
        return "y"

    for in_memory in (False, True):
        for _ in range(2):
            assert await ctx.step("a", {}, call, position="0", in_memory=in_memory) == "y"
    assert len(calls) == 3


class SlowFirst(MemorySteps):
    """Steps whose first write takes longer than the later ones."""

    writes = 0

    async def put(self, key: str, value: JsonValue) -> None:
        self.writes += 1
        for _ in range(5 if self.writes == 1 else 0):
            await asyncio.sleep(0)
        await super().put(key, value)


async def test_a_slow_write_hides_no_call_that_began_beside_it() -> None:
    steps = SlowFirst()
    begun = BegunCalls(steps, "task")
    first, second = asyncio.ensure_future(begun.add(PAY)), asyncio.ensure_future(begun.add(SEND))
    while not second.done():
        assert first.done() or not begun.contain("m2")
        await asyncio.sleep(0)
    again = BegunCalls(steps, "task")
    assert await again.load() == [PAY, SEND]
    again.allow_repeat("m1")
    assert (again.contain("m1"), again.contain("m2")) == (False, True)


def test_a_visit_has_the_same_name_in_every_process() -> None:
    def names(salt: str) -> list[str]:
        inner = NestedVisits("call", BegunCalls(MemorySteps(), ""))
        inner.number_round(f"it:{salt}1|__round__:{salt}2", 4)
        tasks = ("a:{}0", "a:{}9", "it:{}1|__round__:{}2|a:{}3", "it:{}1|__round__:{}7|a:{}3")
        return [inner.name_visit(task.replace("{}", salt)) for task in tasks]

    assert names("x") == names("y")
    assert names("x") == ["call/a#1", "call/a#2", "call/it/__round__[4]/a#1", "call/it/__round__/a#1"]
