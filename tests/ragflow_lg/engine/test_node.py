import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ragflow_lg.base import errors
from ragflow_lg.base.errors import ComponentError, RunCancelled, ServiceError, SettingsError
from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.context import RunContext
from ragflow_lg.component.events import EventSink, NodeFinished
from ragflow_lg.component.plan import ExceptionPolicy, MessagePlan, Plan, PlanNode
from ragflow_lg.component.spec import ComponentOutputs, ComponentParams, ComponentSpec, Kind, Route
from ragflow_lg.component.turn_context import TurnContext
from ragflow_lg.engine.node import visit
from ragflow_lg.engine.node_program import NodeProgram
from tests.fakes.services import fake_services

NO_POLICY = ExceptionPolicy()
Body = Callable[[RunContext], Awaitable[dict[str, Any]]]


def program(
    body: Body,
    *,
    kind: Kind = "plain",
    policy: ExceptionPolicy = NO_POLICY,
    downstream: tuple[str, ...] = ("next",),
    streams_to: tuple[str, ...] = (),
    **more: Any,
) -> NodeProgram:
    """Return the program of a node ``n`` with a function as its component."""

    async def run(ctx: RunContext, params: Any) -> ComponentOutputs:
        return ComponentOutputs.model_validate(await body(ctx))

    spec = ComponentSpec(
        name="Test", kind=kind, params=ComponentParams, outputs=ComponentOutputs, run=run, description="", source=""
    )
    edges = {"downstream": tuple(map(NodeId, downstream)), "streams_to": tuple(map(NodeId, streams_to))}
    node = PlanNode(NodeId("n"), spec, ComponentParams(), "", 4, "", on_error=policy, **edges, **more)
    messages = {id_: MessagePlan(id_, (), frozenset()) for id_ in node.streams_to}
    plan = Plan("", node.id, {node.id: node}, {}, messages=messages)
    return NodeProgram(plan, node, {t: f"to_{t}" for t in node.targets}, ("gate",), {"x": None})


async def play(node: NodeProgram, turn: TurnContext | None = None, state: Any = None) -> tuple[Any, list[str], Any]:
    events: list[Any] = []
    update, goto = await visit(node, state or {}, turn or TurnContext(fake_services()), 7, write=events.append)
    return update, goto, next((e for e in events if isinstance(e, NodeFinished)), None)


async def fail(ctx: RunContext) -> dict[str, Any]:
    raise ComponentError("boom")


async def succeed(ctx: RunContext) -> dict[str, Any]:
    return {"y": (1, 2)}


async def test_a_retry_waits_as_long_as_a_busy_service_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    waits = [7.0, 600.0, 0.0]

    async def note(delay: float) -> None:
        pauses.append(delay)

    async def busy(ctx: RunContext) -> dict[str, Any]:
        raise ServiceError("busy", retry_after_s=waits.pop(0))

    monkeypatch.setattr("ragflow_lg.engine.node_attempts.asyncio.sleep", note)
    await play(program(busy, extra_attempts=2))
    assert [pause for pause in pauses if pause] == [7.0, errors.MAX_RETRY_PAUSE_S]


async def test_a_missing_setting_prevents_a_retry_and_any_exception_is_an_error() -> None:
    attempts: list[int] = []

    async def body(ctx: RunContext) -> dict[str, Any]:
        attempts.append(1)
        raise SettingsError("no key")

    async def divide_by_zero(ctx: RunContext) -> dict[str, Any]:
        raise ZeroDivisionError

    await play(program(body, extra_attempts=3))
    assert len(attempts) == 1
    assert (await play(program(divide_by_zero)))[2].error == "ZeroDivisionError"


async def test_the_time_limit_cancels_the_body() -> None:
    events: list[str] = []

    async def sleep(ctx: RunContext) -> dict[str, Any]:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            events.append("cancelled")
            raise
        return {}

    _, _, finished = await play(program(sleep, timeout_s=0.02))
    assert "0.02 s" in finished.error
    assert events == ["cancelled"]


async def test_waiting_for_a_slow_reader_does_not_count_as_time_of_the_node() -> None:
    sink = EventSink(1)

    async def stream(ctx: RunContext) -> dict[str, Any]:
        for _ in range(3):
            await ctx.delta("x")
        return {}

    running = asyncio.create_task(play(program(stream, timeout_s=0.3), TurnContext(fake_services(), sink)))
    events: list[Any] = []
    while not running.done():
        await asyncio.sleep(0.15)
        if not running.done():
            events += await sink.take()
    assert (await running)[1] == ["to_next"]


async def test_a_cancellation_ends_the_body_and_reports_partial_outputs() -> None:
    events: list[Any] = []
    turn, has_begun = TurnContext(fake_services()), asyncio.Event()

    async def sleep(ctx: RunContext) -> dict[str, Any]:
        ctx.partial["y"] = "half"
        has_begun.set()
        await asyncio.sleep(30)
        return {}

    running = asyncio.create_task(visit(program(sleep), {}, turn, 1, write=events.append))
    await asyncio.wait_for(has_begun.wait(), 60)
    turn.cancel()
    with pytest.raises(RunCancelled):  # LangGraph then runs the node again if the run continues
        await asyncio.wait_for(running, 60)
    finished = events[-1]
    assert finished.outputs == {"x": None, "y": "half", "_ERROR": str(RunCancelled())}
    assert finished.is_halting
    with pytest.raises(RunCancelled):
        await visit(program(sleep), {}, turn, 1)


async def test_a_node_does_nothing_after_the_turn_has_failed() -> None:
    assert await play(program(fail), state={"turn": {"error": [1, 1, "other", "x"]}}) == ({}, [], None)


async def test_an_undeclared_target_is_an_error_of_the_engine() -> None:
    async def choose_unknown(ctx: RunContext) -> dict[str, Any]:
        return {"_next": ["nowhere"]}

    with pytest.raises(errors.UndeclaredTargetError):
        await play(program(choose_unknown, kind="route", routes=(Route("Case 1", ("next",)),)))
