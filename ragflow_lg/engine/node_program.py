"""What is known of a node before a run, and what follows from the result of one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import cast

from msgspec import Struct

from ragflow_lg.base.errors import UndeclaredTargetError
from ragflow_lg.base.ids import NodeId
from ragflow_lg.base.values import JsonValue
from ragflow_lg.component.plan import NEXT, Plan, PlanNode


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
