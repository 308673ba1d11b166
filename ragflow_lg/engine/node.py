"""Execution of one node: the wrapper around every component.

Each execution of a node (a *visit*) resolves inputs, runs the component, turns errors into data and outputs into plain
JSON, emits events, and returns the state update and the successors. Only errors in the engine itself are raised as
exceptions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import cached_property
from typing import Any, cast

from msgspec import Struct

from ragflow_lg.base.errors import (
    CassetteError,
    NodeTimeoutError,
    RagflowLgError,
    RunCancelled,
    SettingsError,
    UndeclaredTargetError,
    pause_before_retry,
)
from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.thinking import strip_thinking
from ragflow_lg.base.values import JsonValue, to_json, to_text
from ragflow_lg.component.begun_calls import step_key
from ragflow_lg.component.context import Round, RunContext
from ragflow_lg.component.events import EngineEvent, NodeFinished, NodeStarted
from ragflow_lg.component.plan import ERROR, NEXT, STREAMED_OUTPUT, Plan, PlanNode
from ragflow_lg.component.spec import ComponentOutputs
from ragflow_lg.component.state import TurnRequest, output_patch
from ragflow_lg.component.state_size import size_of
from ragflow_lg.component.turn_context import NestedTurn, TurnContext
from ragflow_lg.engine.interrupted_calls import Ask, ask_about_calls, begin_once
from ragflow_lg.engine.message_preview import preview_messages

logger = logging.getLogger(__name__)


class NodeProgram(Struct, frozen=True, dict=True):
    """A node, with all the information about it that is known before a run."""

    plan: Plan
    node: PlanNode
    names: Mapping[NodeId, str]
    """The graph names of the successors that are triggered directly; joins are triggered by their gates."""
    gates: tuple[str, ...]
    """The gate channels that this node writes to."""
    blank: Mapping[str, None]
    """The declared outputs, each set to None."""
    exits: frozenset[NodeId] = frozenset()
    """The successors outside the region that contains the node."""

    @cached_property
    def default_targets(self) -> tuple[NodeId, ...]:
        """The successors of a node that does not choose."""
        return _forward_targets(self, self.node.downstream)

    @cached_property
    def chooses(self) -> bool:
        """Whether the successors depend on the run."""
        return self.node.chooses


class Outcome(Struct):
    """The result of running a node."""

    outputs: dict[str, JsonValue]
    error: str | None = None
    targets: tuple[NodeId, ...] = ()
    is_halting: bool = False
    fallback: str = ""
    attempts: int = 1


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
    if node.tools or node.canvas is not None:
        await ask_about_calls(node, ctx, turn, ask)
    clock = turn.services.clock
    created_at, began = clock.now(), clock.monotonic()
    await ctx.emit(NodeStarted(node.id, created_at, ctx.visit, ctx.place, preview_messages(ctx, state)))
    if not node.runs_alone:
        # Let all nodes in this superstep start first, so that their node_started events are sent first.
        await asyncio.sleep(0)
    if (gathered := turn.outermost.gathered) is not None and _has_effect(node, ctx):
        await gathered.settle()  # a run that continues must find the same inputs
        if turn.nested is None:
            gathered.hurry(task)
    with turn.calling() if _calls_a_service(node) else nullcontext():
        outcome = await attempt(program, ctx, turn)
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


async def visit_item(
    program: NodeProgram,
    state: Mapping[str, Any],
    turn: TurnContext,
    round: Round,
    write: Callable[[EngineEvent], None] | None,
) -> tuple[dict[str, Any], list[str]]:
    """Run a region's item node, which begins a round. It never waits, chooses or fails.

    It has no time limit, retries or policies, so that a round takes little more time than its body.
    """
    node = program.node
    if not may_start(node, state, turn):
        return {}, []
    ctx = RunContext(program.plan, node, turn, state, round=round, write=write)
    turn.visits += 1
    created_at = turn.services.clock.now()
    await turn.emit(NodeStarted(node.id, created_at, turn.visits, ctx.place), write)
    outputs = {**program.blank, **_to_plain(await node.spec.run(ctx, node.params))}
    event = NodeFinished(
        node.id,
        created_at,
        0.0,
        ctx.inputs,
        outputs,
        targets=program.default_targets,
        visit=turn.visits,
        place=ctx.place,
    )
    await turn.emit(event, write)
    update: dict[str, Any] = {"outputs": {node.id: outputs}}
    if program.gates:
        update.update({gate: {node.id: None} for gate in program.gates})
    names = program.names
    return update, [names[target] for target in program.default_targets if target in names]


def _has_effect(node: PlanNode, ctx: RunContext) -> bool:
    """Return whether running a node again would cost or change something. What the user has seen cannot change."""
    return node.spec.kind in ("message", "interrupt") or node.spec.effects_of(ctx, node.params) != "none"


def _calls_a_service(node: PlanNode) -> bool:
    """Return whether a node's work may have an effect outside the run, which must not be repeated if avoidable."""
    return node.spec.kind == "plain" and node.canvas is None


async def _find_stored_visit(
    turn: TurnContext, inner: NestedTurn, task: str
) -> tuple[dict[str, Any], list[str]] | None:
    """Return a node's result from before a crash, if its canvas runs inside a node of another canvas."""
    if turn.steps is None or not task:
        return None
    is_there, stored = await turn.steps.find(step_key(task, "visit", "", None))
    return inner.restore(stored) if is_there else None


async def _store_visit(
    turn: TurnContext, inner: NestedTurn, ctx: RunContext, update: Mapping[str, Any], next_names: list[str], text: str
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


async def emit_finished(
    program: NodeProgram, ctx: RunContext, outcome: Outcome, created_at: float, elapsed_s: float
) -> None:
    """Emit the event that a node has finished."""
    ctx.span = (created_at, elapsed_s)
    await ctx.emit(_finished(program.node, ctx, outcome, created_at, elapsed_s), even_if_cancelled=True)


async def attempt(program: NodeProgram, ctx: RunContext, turn: TurnContext) -> Outcome:
    """Run the component with its time limit and retries; turn every result into an `Outcome`."""
    node = program.node
    if node.is_skipped:
        return Outcome(dict(program.blank), targets=program.default_targets)
    text, pause_s, attempt = "", 0.0, 0
    for attempt in range(node.extra_attempts + 1):
        if attempt:
            await asyncio.sleep(pause_s)
        try:
            if ctx.shown and not ctx.compatibility.repeat_shown_text:
                await ctx.discard_answer()
            outputs = await _attempt(node, ctx, turn)
            outcome = _route(program, {**program.blank, **outputs})
            outcome.attempts = attempt + 1
            return outcome
        except RunCancelled as cancelled:
            return _cancelled(program, ctx, cancelled)
        except UndeclaredTargetError:
            raise
        except Exception as error:
            logger.info("Node %s failed: %s", node.id, error, exc_info=not isinstance(error, RagflowLgError))
            text = str(error) or type(error).__name__
            pause_s = pause_before_retry(error, node.retry_delay_s)
            if isinstance(error, SettingsError | CassetteError):
                break  # missing settings or recordings remain missing
    outcome = apply_error_policy(program, ctx, text)
    outcome.attempts = attempt + 1
    if outcome.error is None and ctx.is_streaming:
        try:
            await ctx.delta(to_text(outcome.outputs[STREAMED_OUTPUT]))  # the default value follows what was shown
        except RunCancelled as cancelled:
            return _cancelled(program, ctx, cancelled)
    return outcome


def _cancelled(program: NodeProgram, ctx: RunContext, cancelled: RunCancelled) -> Outcome:
    return Outcome({**program.blank, **ctx.partial, ERROR: str(cancelled)}, str(cancelled), is_halting=True)


async def _attempt(node: PlanNode, ctx: RunContext, turn: TurnContext) -> dict[str, JsonValue]:
    limit = ctx.limit = turn.limits.limit(node.timeout_s)
    try:
        with limit:
            result = await node.spec.run(ctx, node.params)
    except TimeoutError:
        if turn.is_cancelled:
            raise RunCancelled(node.id) from None
        if limit.is_over and node.timeout_s is not None:
            raise NodeTimeoutError(node.id, node.timeout_s) from None
        raise
    finally:
        ctx.limit = None
    outputs = _to_plain(result)
    _check_size(node, ctx, turn, outputs)
    return outputs


def _check_size(node: PlanNode, ctx: RunContext, turn: TurnContext, outputs: Mapping[str, JsonValue]) -> None:
    """Count what a node stores towards the limits on the turn's state."""
    size, limits = turn.state_size, turn.services.state_limits
    size.replace(node.id, size_of(outputs), limits)
    for name, value in ctx.global_updates.items():
        size.replace(f"global {name}", size_of(value), limits)
    for other, patch in ctx.output_updates.items():
        for name, value in patch.items():
            size.replace(f"{other}@{name}", size_of(value), limits)


def _to_plain(result: ComponentOutputs) -> dict[str, JsonValue]:
    return _json_map({**result.__dict__, **(result.__pydantic_extra__ or {})})


def _json_map(values: Mapping[str, Any]) -> dict[str, JsonValue]:
    return cast("dict[str, JsonValue]", to_json(values))


def _route(program: NodeProgram, outputs: dict[str, JsonValue]) -> Outcome:
    node = program.node
    if not node.routes:
        return Outcome(outputs, targets=program.default_targets)
    allowed = {target for route in node.routes for target in route.targets}
    requested = tuple(NodeId(target) for target in cast("list[str] | None", outputs.get(NEXT)) or ())
    targets = tuple(dict.fromkeys(target for target in requested if target in allowed))
    for target in requested:
        if target not in allowed and not _is_unknown_route(program, target):
            raise UndeclaredTargetError(node.id, target)
    return Outcome(outputs, targets=_forward_targets(program, targets))


def _is_unknown_route(program: NodeProgram, target: NodeId) -> bool:
    """Return whether the compiler removed this target with a warning because it is not in the canvas."""
    declared = {t for route in program.node.spec.routes(program.node.params) for t in route.targets}
    return target in declared and target not in program.plan.nodes


def _forward_targets(program: NodeProgram, targets: tuple[NodeId, ...]) -> tuple[NodeId, ...]:
    """Remove edges back to the item node or the region, which only mark the end of the round."""
    parent = program.node.parent
    if parent is None:
        return targets
    return tuple(t for t in targets if t != parent and program.plan.nodes[t].spec.kind != "region_item")


def apply_error_policy(program: NodeProgram, ctx: RunContext, text: str) -> Outcome:
    """Apply ``exception_*``: goto, else default value, else stop. Source: RAGFlow's ``agent/canvas.py``."""
    node, policy = program.node, program.node.on_error
    if policy.method == "comment" and policy.default and not policy.goto and not node.spec.shows_default:
        # The default value silently replaces the node's result.
        key = STREAMED_OUTPUT if node.spec.kind == "model" else "result"
        outputs = {**program.blank, **ctx.partial, key: policy.default}
        return Outcome(_json_map(outputs), targets=_forward_targets(program, _default_targets(node)))
    outputs = _json_map({**program.blank, **ctx.partial, ERROR: text})
    if policy.jumps:
        return Outcome(outputs, text, targets=_forward_targets(program, policy.goto))
    if policy.method and policy.default:
        targets = _forward_targets(program, _default_targets(node))
        return Outcome(outputs, text, targets=targets, fallback=to_text(policy.default))
    return Outcome(outputs, text, is_halting=True)


def _default_targets(node: PlanNode) -> tuple[NodeId, ...]:
    """Return the successors after a failure with a default value; a router follows its last route."""
    if node.routes:
        return tuple(NodeId(target) for target in node.routes[-1].targets)
    return node.downstream


def _finished(node: PlanNode, ctx: RunContext, outcome: Outcome, created_at: float, elapsed_s: float) -> NodeFinished:
    return NodeFinished(
        node.id,
        created_at,
        elapsed_s,
        ctx.inputs,
        outcome.outputs,
        outcome.error,
        outcome.targets,
        outcome.is_halting,
        outcome.fallback,
        ctx.end,
        ctx.usage if ctx.usage.calls else None,
        ctx.visit,
        ctx.place,
        outcome.attempts,
    )


def state_update(program: NodeProgram, ctx: RunContext, outcome: Outcome, step: int) -> dict[str, Any]:
    """Return a node's state update."""
    node = program.node
    outputs: dict[str, Any] = {node.id: outcome.outputs}
    if ctx.output_updates:
        outputs = output_patch(set=outputs, patch=_json_map(ctx.output_updates))
    update: dict[str, Any] = {"outputs": outputs}
    if ctx.global_updates:
        update["globals"] = to_json(ctx.global_updates)
    if program.exits and (leaving := [target for target in outcome.targets if target in program.exits]):
        update["scope"] = {"leave": leaving}
    if record := _turn_record(program, ctx, outcome, step):
        update["turn"] = record
    if program.gates and not outcome.is_halting:
        token = {node.id: list(outcome.targets) if program.chooses else None}
        update.update(dict.fromkeys(program.gates, token))
    return update


def _turn_record(program: NodeProgram, ctx: RunContext, outcome: Outcome, step: int) -> dict[str, Any]:
    """Return the part of the turn's record that a node changes."""
    node = program.node
    record: dict[str, Any] = {}
    if outcome.is_halting:
        record["error"] = [step, node.rank, node.id, outcome.error]
    elif not outcome.targets:
        record["last"] = [step, node.rank, node.id]
    if ctx.visits:
        record["visits"] = ctx.visits
    if ctx.is_streaming and (shown := ctx.shown_update(outcome.outputs.get(STREAMED_OUTPUT))):
        record["shown"] = shown
    if ctx.usage.calls:
        record["usage"] = list(ctx.usage)
    if node.id in program.plan.messages or ctx.is_streaming:
        record["ends"] = {node.id: _end_of(ctx, outcome)}
    if ctx.submitted_files:
        record["files"] = ctx.submitted_files
    if ctx.new_references:
        record["references"] = to_json(ctx.new_references)
    return record


def _end_of(ctx: RunContext, outcome: Outcome) -> list[JsonValue]:
    return [ctx.place, *ctx.span, to_json(ctx.inputs), to_json(ctx.end), _tagged_text(ctx, outcome)]


def _tagged_text(ctx: RunContext, outcome: Outcome) -> str:
    """Return the text that a Message has shown, or ``""`` if its output is the same."""
    text = ctx.message_text
    return "" if text == outcome.outputs.get(STREAMED_OUTPUT) else to_text(to_json(text))


def next_nodes(program: NodeProgram, outcome: Outcome) -> list[str]:
    """Return the graph names of successors that are triggered directly."""
    if outcome.is_halting:
        return []
    names = program.names
    return [names[target] for target in outcome.targets if target in names]
