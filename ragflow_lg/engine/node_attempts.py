"""The attempts of a node: time limit, retries, and what its error policy makes of a failure."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from ragflow_lg.base.errors import (
    ApprovalNeeded,
    CassetteError,
    NodeTimeoutError,
    RagflowLgError,
    RunCancelled,
    SettingsError,
    UndeclaredTargetError,
    pause_before_retry,
)
from ragflow_lg.base.values import JsonValue, to_text
from ragflow_lg.component.context import RunContext
from ragflow_lg.component.plan import ERROR, STREAMED_OUTPUT, PlanNode
from ragflow_lg.component.spec import ComponentOutputs
from ragflow_lg.component.state_size import global_part, output_part, size_of
from ragflow_lg.component.turn_context import TurnContext
from ragflow_lg.engine.demo import run_component
from ragflow_lg.engine.node_program import (
    NodeProgram,
    Outcome,
    forward_targets,
    json_map,
    route_outputs,
    targets_after_default,
)

logger = logging.getLogger(__name__)


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
            outcome = route_outputs(program, {**program.blank, **outputs})
            outcome.attempts = attempt + 1
            return outcome
        except (ApprovalNeeded, UndeclaredTargetError):
            raise
        except RunCancelled as cancelled:
            return _cancelled(program, ctx, cancelled)
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
    try:
        async with turn.limits.limit(node.timeout_s) as ctx.limit:
            result = await run_component(ctx, node)
    except TimeoutError:
        if turn.is_cancelled:
            raise RunCancelled(node.id) from None
        if ctx.limit is not None and ctx.limit.expired() and node.timeout_s is not None:
            raise NodeTimeoutError(node.id, node.timeout_s) from None
        raise
    finally:
        ctx.limit = None
    outputs = plain_outputs(result)
    _check_size(node, ctx, turn, outputs)
    return outputs


def _check_size(node: PlanNode, ctx: RunContext, turn: TurnContext, outputs: Mapping[str, JsonValue]) -> None:
    """Count what a node stores towards the limits on the turn's state."""
    size, limits = turn.state_size, turn.services.state_limits
    size.replace(node.id, size_of(outputs), limits)
    for name, value in ctx.global_updates.items():
        size.replace(global_part(name), size_of(value), limits)
    for other, patch in ctx.output_updates.items():
        for name, value in patch.items():
            size.replace(output_part(other, name), size_of(value), limits)


def plain_outputs(result: ComponentOutputs) -> dict[str, JsonValue]:
    """Return the outputs of a component as plain JSON."""
    return json_map({**result.__dict__, **(result.__pydantic_extra__ or {})})


def apply_error_policy(program: NodeProgram, ctx: RunContext, text: str) -> Outcome:
    """Apply ``exception_*``: goto, else default value, else stop. Source: RAGFlow's ``agent/canvas.py``."""
    node, policy = program.node, program.node.on_error
    if policy.method == "comment" and policy.default and not policy.goto and not node.spec.shows_default:
        # The default value silently replaces the node's result.
        key = STREAMED_OUTPUT if node.spec.kind == "model" else "result"
        outputs = {**program.blank, **ctx.partial, key: policy.default}
        return Outcome(json_map(outputs), targets=forward_targets(program, targets_after_default(node)))
    outputs = json_map({**program.blank, **ctx.partial, ERROR: text})
    if policy.jumps:
        return Outcome(outputs, text, targets=forward_targets(program, policy.goto))
    if policy.method and policy.default:
        targets = forward_targets(program, targets_after_default(node))
        return Outcome(outputs, text, targets=targets, fallback=to_text(policy.default))
    return Outcome(outputs, text, is_halting=True)
