from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.context import RunContext
from ragflow_lg.component.node_steps import MemorySteps
from ragflow_lg.component.turn_context import TurnContext
from tests.fakes.canvas import canvas, plan_of, text
from tests.fakes.services import fake_services

PLAN = plan_of(canvas({"a": text()}))


def context() -> RunContext:
    return RunContext(PLAN, PLAN.nodes[NodeId("a")], TurnContext(fake_services()), {})


async def test_a_stored_step_is_found_even_if_it_is_null() -> None:
    steps = MemorySteps()
    assert await steps.find("a") == (False, None)
    await steps.put("a", None)
    assert await steps.find("a") == (True, None)


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
