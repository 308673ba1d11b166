"""What is known of a node before a run, what follows from the result of one, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, cast

from msgspec import Struct, field

from ragflow_lg.base.errors import UndeclaredTargetError
from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.values import JsonValue, to_json, to_text
from ragflow_lg.component.context import RunContext
from ragflow_lg.component.events import NodeFinished
from ragflow_lg.component.plan import NEXT, STREAMED_OUTPUT, Plan, PlanNode
from ragflow_lg.component.state import join_updates, output_patch


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
        return forward_targets(self, self.node.downstream)

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


class Step(Struct):
    """The effect of a step: its state update, and the next nodes' graph names (or LangGraph's ``Send``)."""

    update: dict[str, Any]
    goto: list[Any] = field(default_factory=list[Any])
    begins_round: bool = False

    def then(self, other: Step) -> Step:
        """Combine with a later step in the same superstep."""
        return Step(join_updates(self.update, other.update), other.goto, other.begins_round)


def forward_targets(program: NodeProgram, targets: tuple[NodeId, ...]) -> tuple[NodeId, ...]:
    """Remove edges back to the item node or the region, which only mark the end of the round."""
    parent = program.node.parent
    if parent is None:
        return targets
    return tuple(t for t in targets if t != parent and program.plan.nodes[t].spec.kind != "region_item")


def route_outputs(program: NodeProgram, outputs: dict[str, JsonValue]) -> Outcome:
    """Return the outcome with the successors that the outputs choose.

    Raises:
        UndeclaredTargetError: if a router chooses a node that none of its routes leads to.
    """
    node = program.node
    if not node.routes:
        return Outcome(outputs, targets=program.default_targets)
    allowed = {target for route in node.routes for target in route.targets}
    requested = tuple(NodeId(target) for target in cast("list[str] | None", outputs.get(NEXT)) or ())
    targets = tuple(dict.fromkeys(target for target in requested if target in allowed))
    for target in requested:
        if target not in allowed and not _is_unknown_route(program, target):
            raise UndeclaredTargetError(node.id, target)
    return Outcome(outputs, targets=forward_targets(program, targets))


def _is_unknown_route(program: NodeProgram, target: NodeId) -> bool:
    """Return whether the compiler removed this target with a warning because it is not in the canvas."""
    declared = {t for route in program.node.spec.routes(program.node.params) for t in route.targets}
    return target in declared and target not in program.plan.nodes


def targets_after_default(node: PlanNode) -> tuple[NodeId, ...]:
    """Return the successors after a failure with a default value; a router follows its last route."""
    if node.routes:
        return tuple(NodeId(target) for target in node.routes[-1].targets)
    return node.downstream


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
    elif node.missing and not outcome.targets:
        record["error"] = [0, 0, node.id, f"The edge of {node.id} leads to {node.missing!r}, which does not exist."]
    elif not outcome.targets:
        region = program.plan.regions.get(node.id) if program.plan.compatibility.old_values else None
        record["last"] = [step, node.rank, region.item if region and region.item else node.id]
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
