"""Execution of one node: the wrapper around every component.

Each execution of a node (a *visit*) resolves inputs, runs the component, turns errors into data and outputs into plain
JSON, emits events, and returns the state update and the successors. Only errors in the engine itself are raised as
exceptions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

from ragflow_lg.base.errors import ApprovalNeeded, RagflowLgError, RunCancelled
from ragflow_lg.base.thinking import strip_thinking
from ragflow_lg.base.values import JsonValue, to_json
from ragflow_lg.component.context import Round, RunContext
from ragflow_lg.component.events import EngineEvent, NodeFinished, NodeStarted
from ragflow_lg.component.plan import PlanNode
from ragflow_lg.component.state import TurnRequest
from ragflow_lg.component.turn_context import NestedVisits, TurnContext, step_key
from ragflow_lg.engine.interrupted_calls import Ask, ask_about_calls, ask_for_approval, begin_once
from ragflow_lg.engine.message_preview import preview_messages
from ragflow_lg.engine.node_attempts import apply_error_policy, attempt, plain_outputs
from ragflow_lg.engine.node_program import NodeProgram, Outcome, emit_finished, next_nodes, state_update


async def visit(
    program: NodeProgram,
    state: Mapping[str, Any],
    turn: TurnContext,
    step: int,
    *,
    request: TurnRequest | None = None,
    round: Round | None = None,
    ask: Ask | None = None,
    task: str = "",
    write: Callable[[EngineEvent], None] | None = None,
) -> tuple[dict[str, Any], list[str]]:
    """Run a node once; return the state update and the next nodes' graph names.

    ``step`` is the number of the superstep. A node that starts after the turn has failed returns at once. ``ask`` shows
    a form to the user and raises an exception until there is an answer.

    Raises:
        RunCancelled: if the turn was cancelled; LangGraph then runs the node again when the turn continues.
    """
    node = program.node
    if not may_start(node, state, turn):
        return {}, []
    if turn.nested is not None and (stored := await _find_stored_visit(turn, turn.nested, task)) is not None:
        return stored
    await turn.check_interruption()
    ctx = RunContext(program.plan, node, turn, state, request=request, round=round, task=task, write=write)
    turn.visits += 1
    turn.state_size.open(state)
    ctx.visit = turn.visits
    if node.spec.kind == "interrupt" and ask is not None:
        ctx.request = {"inputs": await _request_answer(node, ctx, ask)}
    if node.spec.must_run_once(ctx, node.params) and not await begin_once(node, ctx, turn, ask):
        return await _fail_interrupted(program, ctx, turn, step)
    await ask_about_calls(node, ctx, turn, ask)
    clock = turn.services.clock
    created_at, began = clock.now(), clock.monotonic()
    previews = preview_messages(ctx, state) if ctx.is_streaming else None
    await ctx.emit(NodeStarted(node.id, created_at, ctx.visit, ctx.place, previews))
    if not node.runs_alone:
        # Let all nodes in this superstep start first, so that their node_started events are sent first.
        await asyncio.sleep(0)
    # A call to a service may have an effect outside the run, which must not be repeated if avoidable.
    with turn.calling() if node.spec.kind == "plain" and node.canvas is None else nullcontext():
        outcome = await _attempt_or_ask(program, ctx, turn, ask)
    if outcome.is_halting:
        await turn.check_interruption()
    await emit_finished(program, ctx, outcome, created_at, clock.monotonic() - began)
    if outcome.is_halting and turn.is_cancelled:
        raise RunCancelled(node.id)
    update, next_names = state_update(program, ctx, outcome, step), next_nodes(program, outcome)
    if turn.nested is not None:
        await _store_visit(
            turn, turn.nested, ctx, update, next_names, outcome.fallback or strip_thinking(ctx.message_text)
        )
    return update, next_names


async def _attempt_or_ask(program: NodeProgram, ctx: RunContext, turn: TurnContext, ask: Ask | None) -> Outcome:
    while True:
        try:
            return await attempt(program, ctx, turn)
        except ApprovalNeeded:
            if ask is None:
                raise
            await ask_for_approval(program.node, ctx, ask)  # returns only if the answer is there


async def visit_item(
    program: NodeProgram,
    ctx: RunContext,
    state: Mapping[str, Any],
    turn: TurnContext,
    write: Callable[[EngineEvent], None] | None,
) -> tuple[dict[str, Any], list[str]]:
    """Run a region's item node, which begins a round. It never waits, chooses or fails, and reads only the round.

    It has no time limit, retries or policies, and runs in the context of its region, so that a round takes little more
    time than its body.
    """
    node = program.node
    if not may_start(node, state, turn):
        return {}, []
    turn.visits += 1
    created_at = turn.services.clock.now()
    await turn.emit(NodeStarted(node.id, created_at, turn.visits, ctx.place), write)
    outputs = {**program.blank, **plain_outputs(await node.spec.run(ctx, node.params))}
    event = NodeFinished(
        node.id, created_at, 0.0, {}, outputs, targets=program.default_targets, visit=turn.visits, place=ctx.place
    )
    await turn.emit(event, write)
    update: dict[str, Any] = {"outputs": {node.id: outputs}}
    if program.gates:
        update.update({gate: {node.id: None} for gate in program.gates})
    names = program.names
    return update, [names[target] for target in program.default_targets if target in names]


async def _find_stored_visit(
    turn: TurnContext, inner: NestedVisits, task: str
) -> tuple[dict[str, Any], list[str]] | None:
    """Return a node's result from before a crash, if its canvas runs inside a node of another canvas."""
    if turn.steps is None or not task:
        return None
    is_there, stored = await turn.steps.find(step_key(task, "visit", "", None))
    return inner.restore(stored) if is_there else None


async def _store_visit(
    turn: TurnContext, inner: NestedVisits, ctx: RunContext, update: Mapping[str, Any], next_names: list[str], text: str
) -> None:
    if turn.steps is not None and ctx.task:
        used = {"usage": list(ctx.usage), "tokens": ctx.budget.spent}
        result: dict[str, Any] = {"update": update, "goto": next_names, "said": text, **used}
        await turn.steps.put(step_key(ctx.task, "visit", "", None), to_json(result))
    inner.record(ctx.usage, text)


async def _fail_interrupted(
    program: NodeProgram, ctx: RunContext, turn: TurnContext, step: int
) -> tuple[dict[str, Any], list[str]]:
    """Fail a node that was interrupted and must not start again."""
    created_at = turn.services.clock.now()
    await ctx.emit(NodeStarted(program.node.id, created_at, ctx.visit, ctx.place))
    outcome = apply_error_policy(program, ctx, "The node was interrupted while running, and must not run twice.")
    await emit_finished(program, ctx, outcome, created_at, 0.0)
    return state_update(program, ctx, outcome, step), next_nodes(program, outcome)


def may_start(node: PlanNode, state: Mapping[str, Any], turn: TurnContext) -> bool:
    """Return whether the turn is still running.

    Raises:
        RunCancelled: if it was cancelled; LangGraph then keeps the node for a run that continues the turn.
    """
    if turn.is_cancelled:
        raise RunCancelled(node.id)
    return "error" not in state.get("turn", {})


async def _request_answer(node: PlanNode, ctx: RunContext, ask: Ask) -> dict[str, JsonValue]:
    try:
        form = node.spec.asks(ctx, node.params)
    except RagflowLgError:
        return {}  # the same error occurs in the component, which reports it
    return await ask(node, form) if form is not None else {}
