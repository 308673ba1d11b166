"""Readiness of joins: dead-path elimination in the part of the graph between a join and its dominator.

A join waits for every predecessor that may still run, and then runs once. The turn's progress is a map of *tokens*:
each finished node is mapped to the successors it chose, or to None if it has no choice. A node is dead if it has no
token and every edge into it is dead; an edge is dead if its source is dead, or has a token and chose other successors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from ragflow_lg.base.ids import NodeId

Tokens: TypeAlias = Mapping[str, Sequence[str] | None]
"""The choice of each finished node. It is JSON, because a checkpointer may restore it."""


class JoinRegion(NamedTuple):
    """The static part of one join's gate.

    ``nodes`` are the nodes strictly between the dominator and the join in topological order, each with its
    predecessors. ``looping`` lists the nodes on a cycle; their predecessors exclude the nodes of the cycle itself,
    because a cycle that was entered may still send something until the gate settles.
    """

    join: NodeId
    predecessors: tuple[NodeId, ...]
    nodes: tuple[tuple[NodeId, tuple[NodeId, ...]], ...]
    watched: frozenset[NodeId]
    """The nodes that must report to this gate."""
    looping: frozenset[NodeId] = frozenset()

    def is_ready(self, seen: Tokens, *, settle: bool = False) -> bool:
        """Return whether the join may run: every edge into it is decided, and at least one is alive.

        ``settle`` means that no other node can run, so missing tokens will never arrive.
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
