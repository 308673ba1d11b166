"""Readiness of joins: dead-path elimination over the part of the graph between a join's dominator and the join.

A join waits for every predecessor that can still arrive and runs once. The progress of the turn is a map of
*tokens*: a finished node maps to the successors it chose, or to None if it never chooses. A node is
dead if it has no token and every edge into it is dead; an edge is dead if its source has a token
and chose otherwise, or is dead itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from ragflow_lg.base.ids import NodeId

Tokens: TypeAlias = Mapping[str, Sequence[str] | None]
"""The choice of each finished node. JSON, since a checkpointer may restore it."""


class JoinRegion(NamedTuple):
    """The static part of one join's gate.

    ``nodes`` are the nodes strictly between dominator and join in topological order, each with its
    predecessors. ``looping`` are those on a cycle, their predecessors listed without the cycle's own nodes: a
    cycle that was entered may still send something, until the gate settles.
    """

    join: NodeId
    predecessors: tuple[NodeId, ...]
    nodes: tuple[tuple[NodeId, tuple[NodeId, ...]], ...]
    watched: frozenset[NodeId]
    """Nodes that must report to this gate."""
    looping: frozenset[NodeId] = frozenset()

    def is_ready(self, seen: Tokens, *, settle: bool = False) -> bool:
        """Return whether the join may run: every edge into it is decided, and at least one is alive.

        ``settle`` means that nothing else can run any more, so missing tokens will never come.
        """
        dead: set[str] = set()
        for node, predecessors in self.nodes:
            if node not in seen and all(self._is_dead(p, node, seen, dead) for p in predecessors):
                dead.add(node)
        is_alive = False
        for predecessor in self.predecessors:
            if predecessor in seen and _chose(seen[predecessor], self.join):
                is_alive = True
            elif not settle and not self._is_dead(predecessor, self.join, seen, dead):
                return False
        return is_alive

    def _is_dead(self, source: str, target: str, seen: Tokens, dead: set[str]) -> bool:
        if source in self.looping:
            return source in dead
        return not _chose(seen[source], target) if source in seen else source in dead


def _chose(chosen: Sequence[str] | None, target: str) -> bool:
    return chosen is None or target in chosen
