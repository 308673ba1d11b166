"""One visit of one node: the wrapper round every component.

resolve and run → errors become data → plain JSON → events → state update and successors. Only faults of
the engine itself leave it as exceptions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from typing import Any, TypeAlias

from msgspec import Struct

from ragflow_lg.base.errors import (
    CassetteError,
    NodeTimeoutError,
    RagflowLgError,
    RunCancelled,
    SettingsError,
    UndeclaredTargetError,
)
from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.thinking import strip_thinking
from ragflow_lg.base.values import JsonValue, to_json, to_text
from ragflow_lg.component.context import Round, RunContext
from ragflow_lg.component.events import EngineEvent, NodeFinished, NodeStarted
from ragflow_lg.component.plan import ERROR, NEXT, STREAMED_OUTPUT, Plan, PlanNode
from ragflow_lg.component.spec import ComponentOutputs
from ragflow_lg.component.state import TurnRequest, output_patch
from ragflow_lg.component.turn_context import NestedTurn, TurnContext, step_key
from ragflow_lg.dsl.forms import Form, unwrap_submission

__all__ = [
    "Ask",
    "NodeProgram",
    "Outcome",
    "attempt",
    "failed",
    "may_start",
    "next_of",
    "tell",
    "update_of",
    "visit",
    "visit_item",
]

logger = logging.getLogger(__name__)

RUN_AGAIN, GO_ON = "run it again", "go on with an error"
_DECISION = "decision"
_AGAIN = Form(
    "This step was interrupted while it ran. What it does may have happened already.",
    {_DECISION: {"name": "What now?", "type": "options", "optional": False, "options": [RUN_AGAIN, GO_ON]}},
)

Ask: TypeAlias = Callable[[PlanNode, Form], Awaitable[dict[str, JsonValue]]]
"""Asks the user: gives the answer by field name, or pauses the run by an exception that only LangGraph takes."""


class NodeProgram(Struct, frozen=True, dict=True):
    """A node with everything about it that is known before a run."""

    plan: Plan
    node: PlanNode
    names: Mapping[NodeId, str]
    """Graph names of the successors that are entered directly; joins are entered by their gate."""
    gates: tuple[str, ...]
    """Gate channels to report to."""
    blank: Mapping[str, None]
    """Declared outputs, all null."""
    exits: frozenset[NodeId] = frozenset()
    """Successors outside the region whose body the node is in."""

    @cached_property
    def onward(self) -> tuple[NodeId, ...]:
        """Where a node that does not choose goes on."""
        return _onward(self, self.node.downstream)

    @cached_property
    def chooses(self) -> bool:
        """Whether which successors run depends on the run."""
        return self.node.chooses


class Outcome(Struct):
    """What came of a visit."""

    outputs: dict[str, JsonValue]
    error: str | None = None
    targets: tuple[NodeId, ...] = ()
    is_halting: bool = False
    fallback: str = ""


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
    """Run a node once; give the state update and the graph names of the next nodes.

    ``step`` is the number of the superstep. A node that starts after the turn has failed returns at once. ``ask``
    hands a form to the user; it leaves this function by an exception until there is an answer.

    Raises:
        RunCancelled: if the turn was cancelled, so that LangGraph runs the node again should the turn go on.
    """
    node = program.node
    if not may_start(node, state, turn):
        return {}, []
    if turn.nested is not None and (made := await _made_before(turn, turn.nested, task)) is not None:
        return made
    ctx = RunContext(program.plan, node, turn, state, request=request, round=round, task=task, write=write)
    turn.visits += 1
    ctx.visit = turn.visits
    if node.spec.kind == "interrupt" and ask is not None:
        ctx.request = {"inputs": await _answer(node, ctx, ask)}
    if node.spec.runs_once and not await _may_begin(node, ctx, turn, ask):
        return await _interrupted(program, ctx, turn, step)
    clock = turn.services.clock
    created_at, began = clock.now(), clock.monotonic()
    await ctx.emit(NodeStarted(node.id, created_at, ctx.visit))
    if not node.runs_alone:
        # Let the siblings of this superstep start before anybody goes on: their node_started come first.
        await asyncio.sleep(0)
    outcome = await attempt(program, ctx, turn)
    await tell(program, ctx, outcome, created_at, clock.monotonic() - began)
    if outcome.is_halting and turn.is_cancelled:
        raise RunCancelled(node.id)
    update, goto = update_of(program, ctx, outcome, step), next_of(program, outcome)
    if turn.nested is not None:
        await _keep(turn, turn.nested, ctx, update, goto, outcome.fallback or strip_thinking(ctx.message_text))
    return update, goto


async def visit_item(
    program: NodeProgram,
    state: Mapping[str, Any],
    turn: TurnContext,
    round: Round,
    write: Callable[[EngineEvent], None] | None,
) -> tuple[dict[str, Any], list[str]]:
    """Visit the item node of a region, which begins a round. It neither waits nor chooses nor fails.

    So it needs no limit, no retries and no policy: a round should cost little more than its body.
    """
    node = program.node
    if not may_start(node, state, turn):
        return {}, []
    ctx = RunContext(program.plan, node, turn, state, round=round, write=write)
    turn.visits += 1
    created_at = turn.services.clock.now()
    await turn.emit(NodeStarted(node.id, created_at, turn.visits), write)
    outputs = {**program.blank, **_plain(await node.spec.run(ctx, node.params))}
    finished = NodeFinished(node.id, created_at, 0.0, ctx.inputs, outputs, targets=program.onward, visit=turn.visits)
    await turn.emit(finished, write)
    update: dict[str, Any] = {"outputs": {node.id: outputs}}
    if program.gates:
        update.update({gate: {node.id: None} for gate in program.gates})
    names = program.names
    return update, [names[target] for target in program.onward if target in names]


async def _made_before(turn: TurnContext, inner: NestedTurn, task: str) -> tuple[dict[str, Any], list[str]] | None:
    """Give what a visit left that was made before a crash, in a canvas that is played within a node of another."""
    if turn.steps is None or not task:
        return None
    is_there, stored = await turn.steps.find(step_key(task, "visit", "", None))
    return inner.restore(stored) if is_there else None


async def _keep(
    turn: TurnContext, inner: NestedTurn, ctx: RunContext, update: Mapping[str, Any], goto: list[str], said: str
) -> None:
    if turn.steps is not None and ctx.task:
        used = {"usage": list(ctx.usage), "tokens": ctx.budget.spent}
        made: dict[str, Any] = {"update": update, "goto": goto, "said": said, **used}
        await turn.steps.put(step_key(ctx.task, "visit", "", None), to_json(made))
    inner.record(ctx.usage, said)


async def _may_begin(node: PlanNode, ctx: RunContext, turn: TurnContext, ask: Ask | None) -> bool:
    """Mark the beginning of a node that may not be begun twice; ask the user if it has been begun before."""
    if turn.steps is None or not ctx.task:
        return True
    key = step_key(ctx.task, "begun", "", None)
    has_begun, _ = await turn.steps.find(key)
    if not has_begun:
        await turn.steps.put(key, True)
        return True
    if ask is None:
        return False
    answer = await ask(node, _AGAIN)
    value, _ = unwrap_submission(answer.get(_DECISION), {})
    return value == RUN_AGAIN


async def _interrupted(
    program: NodeProgram, ctx: RunContext, turn: TurnContext, step: int
) -> tuple[dict[str, Any], list[str]]:
    """Fail a node that was interrupted and is not to be begun again."""
    created_at = turn.services.clock.now()
    await ctx.emit(NodeStarted(program.node.id, created_at, ctx.visit))
    outcome = failed(program, ctx, "The node was interrupted while it ran, and may not run twice.")
    await tell(program, ctx, outcome, created_at, 0.0)
    return update_of(program, ctx, outcome, step), next_of(program, outcome)


def may_start(node: PlanNode, state: Mapping[str, Any], turn: TurnContext) -> bool:
    """Whether the turn still goes on.

    Raises:
        RunCancelled: if it was cancelled; LangGraph then keeps the node for a run that goes on.
    """
    if turn.is_cancelled:
        raise RunCancelled(node.id)
    return "error" not in state.get("turn", {})


async def _answer(node: PlanNode, ctx: RunContext, ask: Ask) -> dict[str, JsonValue]:
    try:
        form = node.spec.asks(ctx, node.params)
    except RagflowLgError:
        return {}  # the component meets the same error, and reports it
    return await ask(node, form) if form is not None else {}


async def tell(program: NodeProgram, ctx: RunContext, outcome: Outcome, created_at: float, elapsed_s: float) -> None:
    """Tell that the node is done."""
    await ctx.emit(_finished(program.node, ctx, outcome, created_at, elapsed_s), even_if_cancelled=True)


async def attempt(program: NodeProgram, ctx: RunContext, turn: TurnContext) -> Outcome:
    """Run the component with its limit and its retries; turn whatever happens into an `Outcome`."""
    node = program.node
    text = ""
    for attempt in range(node.extra_attempts + 1):
        if attempt:
            await asyncio.sleep(node.retry_delay_s)
        try:
            outputs = await _attempt(node, ctx, turn)
            return _routed(program, {**program.blank, **outputs})
        except RunCancelled as cancelled:
            return Outcome({**program.blank, **ctx.partial, ERROR: str(cancelled)}, str(cancelled), is_halting=True)
        except UndeclaredTargetError:
            raise
        except Exception as error:
            logger.info("Node %s failed: %s", node.id, error, exc_info=not isinstance(error, RagflowLgError))
            text = str(error) or type(error).__name__
            if ctx.deltas or isinstance(error, SettingsError | CassetteError):
                break  # what was shown stands; a missing setting stays missing, and a missing recording too
    return failed(program, ctx, text)


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
    return _plain(result)


def _plain(result: ComponentOutputs) -> dict[str, JsonValue]:
    return to_json({**result.__dict__, **(result.__pydantic_extra__ or {})})


def _routed(program: NodeProgram, outputs: dict[str, JsonValue]) -> Outcome:
    node = program.node
    if not node.routes:
        return Outcome(outputs, targets=program.onward)
    allowed = {target for route in node.routes for target in route.targets}
    chosen = tuple(NodeId(target) for target in outputs.get(NEXT) or ())
    kept = tuple(dict.fromkeys(target for target in chosen if target in allowed))
    for target in chosen:
        if target not in allowed and not _was_left_out(program, target):
            raise UndeclaredTargetError(node.id, target)
    return Outcome(outputs, targets=_onward(program, kept))


def _was_left_out(program: NodeProgram, target: NodeId) -> bool:
    """Whether the compiler has left the target out, with a warning, because the canvas does not have it."""
    written = {t for route in program.node.spec.routes(program.node.params) for t in route.targets}
    return target in written and target not in program.plan.nodes


def _onward(program: NodeProgram, targets: tuple[NodeId, ...]) -> tuple[NodeId, ...]:
    """Leave out the way back to the item node or the region: it only says that the round is over."""
    parent = program.node.parent
    if parent is None:
        return targets
    return tuple(t for t in targets if t != parent and program.plan.nodes[t].spec.kind != "region_item")


def failed(program: NodeProgram, ctx: RunContext, text: str) -> Outcome:
    """Apply ``exception_*``: goto, then default value, then stop. Source: RAGFlow's ``agent/canvas.py``."""
    node, policy = program.node, program.node.on_error
    if policy.method == "comment" and policy.default and not policy.goto and not node.spec.shows_default:
        # The default value silently takes the place of what the node would have given.
        key = STREAMED_OUTPUT if node.spec.kind == "model" else "result"
        outputs = {**program.blank, **ctx.partial, key: policy.default}
        return Outcome(to_json(outputs), targets=_onward(program, _default_targets(node)))
    outputs = to_json({**program.blank, **ctx.partial, ERROR: text})
    if policy.jumps:
        return Outcome(outputs, text, targets=_onward(program, policy.goto))
    if policy.method and policy.default:
        targets = _onward(program, _default_targets(node))
        return Outcome(outputs, text, targets=targets, fallback=to_text(policy.default))
    return Outcome(outputs, text, is_halting=True)


def _default_targets(node: PlanNode) -> tuple[NodeId, ...]:
    """Where a node goes on after a failure that has a default: a router takes its last route."""
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
        ctx.global_updates or None,
        ctx.output_updates or None,
        ctx.end,
        ctx.usage if ctx.usage.calls else None,
        ctx.visit,
    )


def update_of(program: NodeProgram, ctx: RunContext, outcome: Outcome, step: int) -> dict[str, Any]:
    """Give the state update that a visit leaves."""
    node = program.node
    changed: dict[str, Any] = {node.id: outcome.outputs}
    if ctx.output_updates:
        changed = output_patch(set=changed, patch=to_json(ctx.output_updates))
    update: dict[str, Any] = {"outputs": changed}
    if ctx.global_updates:
        update["globals"] = to_json(ctx.global_updates)
    if program.exits and (leaving := [target for target in outcome.targets if target in program.exits]):
        update["scope"] = {"leave": leaving}
    record: dict[str, Any] = {}
    if outcome.is_halting:
        record["error"] = [step, node.rank, node.id, outcome.error]
    elif not outcome.targets:
        record["last"] = [step, node.rank, node.id]
    if ctx.visits:
        record["visits"] = ctx.visits
    if ctx.new_references:
        record["references"] = to_json(ctx.new_references)
    if record:
        update["turn"] = record
    if program.gates and not outcome.is_halting:
        token = {node.id: list(outcome.targets) if program.chooses else None}
        update.update(dict.fromkeys(program.gates, token))
    return update


def next_of(program: NodeProgram, outcome: Outcome) -> list[str]:
    """Give the graph names of the nodes that are entered directly."""
    if outcome.is_halting:
        return []
    names = program.names
    return [names[target] for target in outcome.targets if target in names]
