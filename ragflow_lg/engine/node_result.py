"""What a node leaves behind: its event, its update of the state, and the nodes that run next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ragflow_lg.base.values import JsonValue, to_json, to_text
from ragflow_lg.component.context import RunContext
from ragflow_lg.component.events import NodeFinished
from ragflow_lg.component.plan import STREAMED_OUTPUT
from ragflow_lg.component.state import output_patch
from ragflow_lg.engine.node_program import NodeProgram, Outcome


def state_update(program: NodeProgram, ctx: RunContext, outcome: Outcome, step: int) -> dict[str, Any]:
    """Return a node's state update."""
    node = program.node
    outputs: dict[str, Any] = {node.id: outcome.outputs}
    if ctx.output_updates:
        outputs = output_patch(set=outputs, patch=ctx.output_updates)
    update: dict[str, Any] = {"outputs": outputs}
    if ctx.global_updates:
        update["globals"] = ctx.global_updates
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
        text = ctx.message_text  # stored only if the output lacks something of it, such as tags
        shown_text = "" if text == outcome.outputs.get(STREAMED_OUTPUT) else to_text(to_json(text))
        record["ends"] = {node.id: [ctx.place, *ctx.span, to_json(ctx.inputs), to_json(ctx.end), shown_text]}
    if ctx.submitted_files:
        record["files"] = ctx.submitted_files
    if ctx.new_references:
        record["references"] = to_json(ctx.new_references)
    return record


def next_nodes(program: NodeProgram, outcome: Outcome) -> list[str]:
    """Return the graph names of successors that are triggered directly."""
    if outcome.is_halting:
        return []
    names = program.names
    return [names[target] for target in outcome.targets if target in names]


def json_map(values: Mapping[str, Any]) -> dict[str, JsonValue]:
    """Return values by name as plain JSON."""
    return cast("dict[str, JsonValue]", to_json(values))


async def emit_finished(
    program: NodeProgram, ctx: RunContext, outcome: Outcome, created_at: float, elapsed_s: float
) -> None:
    """Emit the event that a node has finished."""
    ctx.span = (created_at, elapsed_s)
    event = NodeFinished(
        program.node.id,
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
        tuple(ctx.notices),
        ctx.finish_reason,
    )
    await ctx.emit(event, even_if_cancelled=True)
