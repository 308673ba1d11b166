import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ragflow_lg.base.errors import ComponentError, RunCancelled, SettingsError, UndeclaredTargetError
from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.context import RunContext
from ragflow_lg.component.event_sink import EventSink
from ragflow_lg.component.events import NodeFinished
from ragflow_lg.component.plan import ExceptionPolicy, Plan, PlanNode
from ragflow_lg.component.spec import ComponentOutputs, ComponentParams, ComponentSpec, Route
from ragflow_lg.component.turn_context import TurnContext
from ragflow_lg.components.switch import switch
from ragflow_lg.engine.node import NodeProgram, visit
from tests.fakes.run import run_component
from tests.fakes.services import fake_services

NO_POLICY = ExceptionPolicy()
Body = Callable[[RunContext], Awaitable[dict[str, Any]]]


def program(body: Body, *, kind: Any = "plain", policy: ExceptionPolicy = NO_POLICY, **more: Any) -> NodeProgram:
    async def run(ctx: RunContext, params: Any) -> ComponentOutputs:
        return ComponentOutputs.model_validate(await body(ctx))

    spec = ComponentSpec(
        name="Test", kind=kind, params=ComponentParams, outputs=ComponentOutputs, run=run, description="", source=""
    )
    node = PlanNode(
        NodeId("n"), spec, ComponentParams(), "", 4, "", on_error=policy, **{"downstream": (NodeId("next"),), **more}
    )
    return NodeProgram(
        Plan("", node.id, {node.id: node}, {}), node, {t: f"to_{t}" for t in node.targets}, ("gate",), {"x": None}
    )


async def play(prog: NodeProgram, turn: TurnContext | None = None, state: Any = None) -> tuple[Any, list[str], Any]:
    events: list[Any] = []
    update, goto = await visit(prog, state or {}, turn or TurnContext(fake_services()), 7, write=events.append)
    return update, goto, next((e for e in events if isinstance(e, NodeFinished)), None)


async def fails(ctx: RunContext) -> dict[str, Any]:
    raise ComponentError("boom")


async def works(ctx: RunContext) -> dict[str, Any]:
    return {"y": (1, 2)}


async def test_what_a_node_leaves_behind() -> None:
    update, goto, finished = await play(program(works))
    assert update == {"outputs": {"n": {"x": None, "y": [1, 2]}}, "gate": {"n": None}}
    assert goto == ["to_next"]
    assert finished.error is None


async def test_the_last_node_notes_itself() -> None:
    update, goto, _ = await play(program(works, downstream=()))
    assert (update["turn"], goto) == ({"last": [7, 4, "n"]}, [])


@pytest.mark.parametrize(
    ("method", "default", "goto", "targets", "outputs", "fallback"),
    [
        ("", None, (), [], {"x": None, "_ERROR": "boom"}, ""),
        ("comment", "DEF", (), ["to_next"], {"x": None, "result": "DEF"}, ""),
        ("comment", "", ("h",), ["to_h"], {"x": None, "_ERROR": "boom"}, ""),
        ("goto", None, ("h",), ["to_h"], {"x": None, "_ERROR": "boom"}, ""),
        ("goto", "DEF", ("h",), ["to_h"], {"x": None, "_ERROR": "boom"}, ""),
        ("goto", "DEF", (), ["to_next"], {"x": None, "_ERROR": "boom"}, "DEF"),
        ("goto", None, (), [], {"x": None, "_ERROR": "boom"}, ""),
    ],
)
async def test_exception_policies(
    method: str, default: Any, goto: tuple[str, ...], targets: list[str], outputs: dict[str, Any], fallback: str
) -> None:
    policy = ExceptionPolicy(method, default, tuple(map(NodeId, goto)))
    update, following, finished = await play(program(fails, policy=policy))
    assert (following, update["outputs"]["n"], finished.fallback) == (targets, outputs, fallback)
    assert ("turn" in update) == (not targets)


async def test_a_model_takes_its_default_as_content() -> None:
    update, _, _ = await play(program(fails, kind="model", policy=ExceptionPolicy("comment", "DEF")))
    assert update["outputs"]["n"]["content"] == "DEF"


async def test_retries_until_it_works() -> None:
    tries: list[int] = []

    async def second_time(ctx: RunContext) -> dict[str, Any]:
        tries.append(1)
        if len(tries) < 3:
            raise ComponentError("not yet")
        return {}

    _, goto, _ = await play(program(second_time, extra_attempts=2))
    assert (len(tries), goto) == (3, ["to_next"])


@pytest.mark.parametrize("error", [SettingsError("no key"), None])
async def test_no_retry_for_a_missing_setting_or_after_something_was_shown(error: Exception | None) -> None:
    tries: list[int] = []

    async def body(ctx: RunContext) -> dict[str, Any]:
        tries.append(1)
        if error is None:
            await ctx.delta("shown")
        raise error or ComponentError("late")

    await play(program(body, extra_attempts=3))
    assert len(tries) == 1


async def test_a_time_limit_ends_the_body() -> None:
    ended: list[str] = []

    async def sleeps(ctx: RunContext) -> dict[str, Any]:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            ended.append("yes")
            raise
        return {}

    _, _, finished = await play(program(sleeps, timeout_s=0.02))
    assert "0.02 s" in finished.error
    assert ended == ["yes"]


async def test_waiting_for_a_reader_is_not_the_nodes_time() -> None:
    sink = EventSink(1)

    async def speaks(ctx: RunContext) -> dict[str, Any]:
        for _ in range(3):
            await ctx.delta("x")
        return {}

    running = asyncio.create_task(play(program(speaks, timeout_s=0.05), TurnContext(fake_services(), sink)))
    events: list[Any] = []
    while not running.done():
        await asyncio.sleep(0.04)
        if not running.done():
            events += await sink.take()
    assert (await running)[1] == ["to_next"]


async def test_a_cancel_ends_a_sleeping_body_at_once_and_tells_what_there_is() -> None:
    events: list[Any] = []
    turn = TurnContext(fake_services())

    async def sleeps(ctx: RunContext) -> dict[str, Any]:
        ctx.partial["y"] = "half"
        await asyncio.sleep(30)
        return {}

    running = asyncio.create_task(visit(program(sleeps), {}, turn, 1, write=events.append))
    await asyncio.sleep(0.02)
    turn.cancel()
    with pytest.raises(RunCancelled):  # so that LangGraph keeps the node for a run that goes on
        await asyncio.wait_for(running, 1)
    finished = events[-1]
    assert finished.outputs == {"x": None, "y": "half", "_ERROR": str(RunCancelled())}
    assert finished.is_halting
    with pytest.raises(RunCancelled):
        await visit(program(sleeps), {}, turn, 1)


async def test_a_node_that_starts_after_the_turn_was_stopped_returns_at_once() -> None:
    assert await play(program(fails), state={"turn": {"error": [1, 1, "other", "x"]}}) == ({}, [], None)


async def test_an_undeclared_target_is_a_fault_of_the_engine() -> None:
    async def elsewhere(ctx: RunContext) -> dict[str, Any]:
        return {"_next": ["nowhere"]}

    with pytest.raises(UndeclaredTargetError):
        await play(program(elsewhere, kind="route", routes=(Route("Case 1", ("next",)),)))


async def test_a_router_with_a_default_goes_on_along_its_last_route() -> None:
    routes = (Route("Case 1", ("a",)), Route("Else", ("b",)))
    _, goto, _ = await play(program(fails, kind="route", routes=routes, policy=ExceptionPolicy("comment", "x")))
    assert goto == ["to_b"]


async def test_any_exception_of_a_component_is_data() -> None:
    async def breaks(ctx: RunContext) -> dict[str, Any]:
        raise ZeroDivisionError

    _, _, finished = await play(program(breaks))
    assert finished.error == "ZeroDivisionError"


async def test_through_a_real_component() -> None:
    params = {
        "conditions": [{"items": [{"cpn_id": "sys.query", "operator": "=", "value": "x"}], "to": "a"}],
        "end_cpn_ids": "b",
    }
    assert (await run_component(switch, params, globals={"sys.query": "x"})).targets == ("a",)
