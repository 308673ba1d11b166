"""Flow graph analysis for one scope: order, cycles, dominators, ancestors.

All algorithms are iterative and run in nearly linear time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TypeVar

from ragflow_lg.base.ids import NodeId

Id = TypeVar("Id", bound=str)


class Flow:
    """A directed graph of the nodes reachable from an entry."""

    def __init__(self, entry: NodeId, successors: Mapping[NodeId, Sequence[NodeId]]) -> None:
        self.entry = entry
        self.order = breadth_first([entry], successors)
        """Nodes in breadth-first order."""
        reached = set(self.order)
        self.successors = {n: tuple(s for s in successors.get(n, ()) if s in reached) for n in self.order}
        self.predecessors = find_predecessors(self.successors)

    @cached_property
    def components(self) -> list[tuple[NodeId, ...]]:
        """Strongly connected components in topological order (Tarjan's algorithm)."""
        return list(reversed(_strongly_connected(self.order, self.successors)))

    @cached_property
    def cyclic(self) -> frozenset[NodeId]:
        """Nodes on a cycle."""
        return frozenset(n for group in self.components for n in group if len(group) > 1 or n in self.successors[n])

    @cached_property
    def position(self) -> dict[NodeId, int]:
        """Each node's index in a topological order of the components."""
        return {n: i for i, n in enumerate(n for group in self.components for n in group)}

    @cached_property
    def external_predecessors(self) -> dict[NodeId, tuple[NodeId, ...]]:
        """For each node, the predecessors of its component that are outside the component."""
        predecessors: dict[NodeId, tuple[NodeId, ...]] = {}
        for group in self.components:
            inside = set(group)
            outside = dict.fromkeys(p for n in group for p in self.predecessors[n] if p not in inside)
            predecessors.update(dict.fromkeys(group, tuple(outside)))
        return predecessors

    @cached_property
    def dominators(self) -> dict[NodeId, NodeId]:
        """Each node's immediate dominator (Cooper, Harvey and Kennedy). The entry dominates itself."""
        number = {n: i for i, n in enumerate(reversed(_postorder(self.entry, self.successors)))}
        ordered = sorted(number, key=number.__getitem__)
        dominators: dict[NodeId, NodeId] = {self.entry: self.entry}
        is_changing = True
        while is_changing:
            is_changing = False
            for node in ordered[1:]:
                known = [p for p in self.predecessors[node] if p in dominators]
                best = known[0]
                for other in known[1:]:
                    best = _meet(best, other, dominators, number)
                if dominators.get(node) != best:
                    dominators[node] = best
                    is_changing = True
        return dominators

    @cached_property
    def ancestor_bits(self) -> dict[NodeId, int]:
        """For each node, the set of nodes with a path to it: bit ``i`` represents the node at `position` ``i``."""
        bits: dict[NodeId, int] = {}
        for group in self.components:
            above = 0
            for predecessor in self.external_predecessors[group[0]]:
                above |= bits[predecessor] | 1 << self.position[predecessor]
            if group[0] in self.cyclic:
                for node in group:
                    above |= 1 << self.position[node]
            bits.update(dict.fromkeys(group, above))
        return bits

    @cached_property
    def descendant_bits(self) -> dict[NodeId, int]:
        """For each node, the set of nodes to which it has a path, as in `ancestor_bits`."""
        bits = dict.fromkeys(self.order, 0)
        for group in reversed(self.components):
            below = 0
            for node in group:
                for successor in self.successors[node]:
                    below |= bits[successor] | 1 << self.position[successor]
            bits.update(dict.fromkeys(group, below))
        return bits

    def common_dominator(self, node: NodeId, other: NodeId) -> NodeId:
        """Return the last node through which every path to both nodes leads."""
        while node != other:
            if self._dominator_depth[node] < self._dominator_depth[other]:
                node, other = other, node
            node = self.dominators[node]
        return node

    @cached_property
    def _dominator_depth(self) -> dict[NodeId, int]:
        depth = {self.entry: 0}
        for node in self.order:
            chain: list[NodeId] = []
            while node not in depth:
                chain.append(node)
                node = self.dominators[node]
            for number, below in enumerate(reversed(chain), depth[node] + 1):
                depth[below] = number
        return depth

    @cached_property
    def solitary(self) -> frozenset[NodeId]:
        """Nodes that are ordered before or after every other node; empty if the graph has a cycle."""
        if self.cyclic:
            return frozenset()
        everything = (1 << len(self.order)) - 1
        above, below = self.ancestor_bits, self.descendant_bits
        return frozenset(n for n in self.order if above[n] | below[n] | 1 << self.position[n] == everything)

    def is_ancestor(self, above: str, node: NodeId) -> bool:
        """Return whether there is a path from ``above`` to ``node``."""
        position = self.position.get(NodeId(above))
        return position is not None and node in self.position and bool(self.ancestor_bits[node] >> position & 1)

    def nodes_between(self, top: NodeId, bottom: NodeId) -> list[NodeId]:
        """Return the nodes on paths from ``top`` to ``bottom``, excluding these two, in topological order."""
        ways = {**self.predecessors, top: (), bottom: ()}
        return sorted(reach(ways, self.predecessors[bottom]) - {top, bottom}, key=self.position.__getitem__)

    @cached_property
    def _breadth_first_index(self) -> dict[NodeId, int]:
        return {node: index for index, node in enumerate(self.order)}

    def find_cycle(self, group: Sequence[NodeId]) -> list[NodeId]:
        """Return one cycle in a component, as a path whose first and last nodes are the same."""
        inside, start = set(group), min(group, key=self._breadth_first_index.__getitem__)
        path, visited = [start], {start}
        while True:
            following = [s for s in self.successors[path[-1]] if s in inside]
            if start in following:
                return [*path, start]
            fresh = next((s for s in following if s not in visited), None)
            if fresh is None:
                return [*path, following[0]]
            visited.add(fresh)
            path.append(fresh)


def breadth_first(starts: Iterable[Id], successors: Mapping[Id, Iterable[Id]]) -> list[Id]:
    """Return some nodes and all that can be reached from them, in breadth-first order."""
    order = list(starts)
    seen = set(order)
    for node in order:  # grows during the loop
        for successor in successors.get(node, ()):
            if successor not in seen:
                seen.add(successor)
                order.append(successor)
    return order


def reach(successors: Mapping[Id, Iterable[Id]], starts: Iterable[Id]) -> set[Id]:
    """Return some nodes and all that can be reached from them."""
    return set(breadth_first(starts, successors))


def find_predecessors(successors: Mapping[Id, Iterable[Id]]) -> dict[Id, tuple[Id, ...]]:
    """Return the nodes that lead to each node, in the order of the map.

    >>> find_predecessors({"a": ["c"], "b": ["c"], "c": []})
    {'a': (), 'b': (), 'c': ('a', 'b')}
    """
    predecessors: dict[Id, dict[Id, None]] = {n: {} for n in successors}
    for node, following in successors.items():
        for successor in following:
            if successor in predecessors:
                predecessors[successor][node] = None
    return {n: tuple(p) for n, p in predecessors.items()}


def _postorder(entry: NodeId, successors: Mapping[NodeId, Sequence[NodeId]]) -> list[NodeId]:
    order: list[NodeId] = []
    seen = {entry}
    stack = [(entry, iter(successors[entry]))]
    while stack:
        node, following = stack[-1]
        fresh = next((s for s in following if s not in seen), None)
        if fresh is None:
            order.append(node)
            stack.pop()
        else:
            seen.add(fresh)
            stack.append((fresh, iter(successors[fresh])))
    return order


def _meet(a: NodeId, b: NodeId, dominators: Mapping[NodeId, NodeId], number: Mapping[NodeId, int]) -> NodeId:
    """Return the two nodes' nearest common dominator."""
    while a != b:
        while number[a] > number[b]:
            a = dominators[a]
        while number[b] > number[a]:
            b = dominators[b]
    return a


def _strongly_connected(
    order: Sequence[NodeId], successors: Mapping[NodeId, Sequence[NodeId]]
) -> list[tuple[NodeId, ...]]:
    index: dict[NodeId, int] = {}
    low: dict[NodeId, int] = {}
    stack: list[NodeId] = []
    on_stack: set[NodeId] = set()
    groups: list[tuple[NodeId, ...]] = []
    for root in order:
        if root in index:
            continue
        work = [(root, iter(successors[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, following = work[-1]
            has_descended = False
            for successor in following:
                if successor not in index:
                    index[successor] = low[successor] = len(index)
                    stack.append(successor)
                    on_stack.add(successor)
                    work.append((successor, iter(successors[successor])))
                    has_descended = True
                    break
                if successor in on_stack:
                    low[node] = min(low[node], index[successor])
            if has_descended:
                continue
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[node])
            if low[node] == index[node]:
                start = _last_index(stack, node)
                group = tuple(stack[start:])
                del stack[start:]
                on_stack.difference_update(group)
                groups.append(group)
    return groups


def _last_index(stack: Sequence[NodeId], node: NodeId) -> int:
    index = len(stack) - 1
    while stack[index] != node:
        index -= 1
    return index
