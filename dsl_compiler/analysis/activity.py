"""Which nodes of a scope run together: a truth table over the choices that the scope's routers make."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, cast

from msgspec import Struct

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.plan import PlanNode
from ragflow_lg.dsl.variable_references import Reference
from ragflow_lg.dsl_compiler.draft import Draft
from ragflow_lg.dsl_compiler.flow import Flow

MAX_COMBINATIONS = 1 << 12
"""Maximum number of combinations of choices in a table. With more, a question looks only at the routers it concerns."""

MAX_ROUTERS = 30
"""Maximum number of routers in a table; more can only have few combinations if most of them choose alike."""

MAX_TABLES = 1_000
"""Maximum number of tables for one scope."""

MAX_STEPS = 7
"""Maximum number of nodes at the end of a path that is shown."""

ERROR_ROUTE = "on error"

_PLACES = frozenset({"to", "end_cpn_ids", "outputs", "inputs", "description"})
"""Parameters of a router that do not decide how it chooses."""


class Choice(Struct, frozen=True):
    """One way to leave a node, with the successors that then run."""

    label: str
    targets: tuple[NodeId, ...]
    is_failure: bool = False
    """Whether the node has failed, so that it has no outputs."""


class Table(Struct, frozen=True):
    """Under which combinations of choices each node runs. Bit ``i`` of a mask represents combination ``i``."""

    size: int
    masks: dict[tuple[NodeId, int], int]
    """The combinations in which a router makes a choice, by router and number of the choice."""
    active: dict[NodeId, int]
    """The combinations in which a node runs."""
    routers: int = 0
    """The routers whose choices are combined, as bits of their positions."""

    @property
    def all(self) -> int:
        """The mask of all combinations."""
        return (1 << self.size) - 1


class Activity:
    """Answers which nodes of one scope run, and after which choices. Nodes on or after a cycle are unknown."""

    def __init__(self, draft: Draft, flow: Flow) -> None:
        self.draft = draft
        self.flow = flow
        self.choices = {id_: choices for id_ in flow.order if len(choices := _choices(draft.nodes[id_], flow)) > 1}
        self._tables: dict[int, Table | None] = {}
        self._variables: dict[NodeId, str] = {}

    def is_known(self, node: NodeId) -> bool:
        """Return whether the table says when a node runs: neither it nor a node before it is on a cycle."""
        bits = self.flow.ancestor_bits.get(node)
        return bits is not None and not bits & self._cyclic_bits and node not in self.flow.cyclic

    def table(self, *nodes: NodeId) -> Table | None:
        """Return a table that contains the given nodes, or None if too many choices lie before them.

        If the whole scope has too many, the table begins at the last node through which every path to these nodes
        leads: what happens before it does not matter to how they run together.
        """
        if self.whole is not None:
            return self.whole
        top, bits = nodes[0], 0
        for node in nodes:
            top = self.flow.common_dominator(top, node)
            bits |= self.flow.ancestor_bits[node] | 1 << self.flow.position[node]
        return self._table(top, bits & (self.flow.descendant_bits[top] | 1 << self.flow.position[top]))

    def precedes(self, above: NodeId, node: NodeId) -> bool:
        """Return whether a node is another one or has a path to it."""
        return above == node or self.flow.is_ancestor(above, node)

    def has_value(self, table: Table, node: NodeId) -> int:
        """Return the combinations in which a node runs without failing, so that its outputs have values."""
        mask = table.active.get(node, 0)
        for number, choice in enumerate(self.choices.get(node, ())):
            if choice.is_failure:
                mask &= ~table.masks.get((node, number), 0)
        return mask

    def path(self, table: Table, combination: int, node: NodeId) -> list[str]:
        """Return the titles of the nodes on a way to a node in one combination, with the choices made there.

        Of a long way, only the start and the last nodes are returned.
        """
        steps = [self._title(node)]
        while node != self.flow.entry:
            if len(steps) == MAX_STEPS:
                return [self._title(self.flow.entry), "…", *steps[::-1]]
            node, label = next(self._before(table, combination, node))
            steps.append(f"{self._title(node)} ({label})" if label else self._title(node))
        return steps[::-1]

    def may_be_impossible(self, table: Table, node: NodeId) -> bool:
        """Return whether routers before a node read the same value, so that a path of the table may not exist.

        At least one of them is in the table. Routers with equal conditions count as one there.
        """
        before = self.flow.ancestor_bits[node] | 1 << self.flow.position[node]
        for readers in self._shared_values:
            known = readers & before & table.routers
            if known and readers & before & ~(table.routers & self._same_choice(known)):
                return True
        return False

    def _same_choice(self, routers: int) -> int:
        """Return the routers that test the same conditions as the first of some routers."""
        return self._sharing[self._variable(next(self._nodes(routers)))]

    @cached_property
    def _sharing(self) -> dict[str, int]:
        """The routers by what their choice depends on."""
        sharing: dict[str, int] = {}
        for router in self.choices:
            variable = self._variable(router)
            sharing[variable] = sharing.get(variable, 0) | 1 << self.flow.position[router]
        return sharing

    @cached_property
    def _shared_values(self) -> list[int]:
        """For each value that several routers read, these routers."""
        readers: dict[Reference, int] = {}
        for router in self.choices:
            node = self.draft.nodes[router]
            if node.spec.kind == "route":
                bit = 1 << self.flow.position[router]
                readers.update({r: readers.get(r, 0) | bit for r, _ in node.references})
        return list(dict.fromkeys(bits for bits in readers.values() if bits.bit_count() > 1))

    def _before(self, table: Table, combination: int, node: NodeId) -> Iterator[tuple[NodeId, str]]:
        """Yield the nodes that lead to a node in a combination, with the choice that they make."""
        for id_ in self.flow.predecessors[node]:
            if not table.active.get(id_, table.all) >> combination & 1:
                continue
            if id_ not in self.choices:
                yield id_, ""
            for number, choice in enumerate(self.choices.get(id_, ())):
                if node in choice.targets and table.masks.get((id_, number), table.all) >> combination & 1:
                    yield id_, choice.label

    def _title(self, id_: NodeId) -> str:
        return self.draft.components[id_].title or id_

    @cached_property
    def whole(self) -> Table | None:
        """The table of all nodes, or None if they have too many choices."""
        return self._build(self.flow.entry, (1 << len(self.flow.order)) - 1)

    def _table(self, top: NodeId, bits: int) -> Table | None:
        """Return the table of the nodes in ``bits``, of which ``top`` is the first."""
        routers = bits & self._router_bits
        if routers.bit_count() > MAX_ROUTERS:
            return None
        if bits not in self._tables:
            self._tables[bits] = self._build(top, bits) if len(self._tables) < MAX_TABLES else None
        return self._tables[bits]

    def _build(self, top: NodeId, bits: int) -> Table | None:
        """Propagate the masks in topological order. Return None if there are too many combinations."""
        variables: dict[str, list[NodeId]] = {}
        for id_ in self._nodes(bits & self._router_bits):
            variables.setdefault(self._variable(id_), []).append(id_)
            if len(variables) > MAX_COMBINATIONS.bit_length():
                return None
        size = 1
        for sharing in variables.values():
            size *= len(self.choices[sharing[0]])
            if size > MAX_COMBINATIONS:
                return None
        masks: dict[tuple[NodeId, int], int] = {}
        stride = 1
        for sharing in variables.values():
            count = len(self.choices[sharing[0]])
            repeat = ((1 << size) - 1) // ((1 << stride * count) - 1)
            for number in range(count):
                mask = (((1 << stride) - 1) << number * stride) * repeat
                masks.update({(id_, number): mask for id_ in sharing})
            stride *= count
        active = self._propagate(top, bits, masks, (1 << size) - 1)
        return Table(size, masks, active, bits & self._router_bits)

    def _propagate(
        self, top: NodeId, bits: int, masks: dict[tuple[NodeId, int], int], everything: int
    ) -> dict[NodeId, int]:
        active = dict.fromkeys(self._nodes(bits), 0)
        active[top] = everything
        for id_, here in active.items():  # in topological order
            if id_ not in self.choices:
                taken = [(here, self.flow.successors[id_])]
            else:
                taken = [(here & masks[id_, n], choice.targets) for n, choice in enumerate(self.choices[id_])]
            for mask, targets in taken:
                for target in targets:
                    if target in active:
                        active[target] |= mask
        return active

    def _variable(self, id_: NodeId) -> str:
        """Return what a router's choice depends on. Routers with equal conditions choose the same route."""
        if id_ not in self._variables:
            self._variables[id_] = self._describe(id_)
        return self._variables[id_]

    def _describe(self, id_: NodeId) -> str:
        node = self.draft.nodes[id_]
        if node.spec.kind != "route" or any(node.spec.requires(node.params)) or node.on_error.jumps:
            return id_
        conditions = json.dumps(_without_places(node.params.model_dump(mode="json")), sort_keys=True, default=str)
        return f"{len(self.choices[id_])} {conditions}"

    def _nodes(self, bits: int) -> Iterator[NodeId]:
        """Yield the nodes of a set in topological order."""
        while bits:
            yield self._in_order[(bits & -bits).bit_length() - 1]
            bits &= bits - 1

    @cached_property
    def _in_order(self) -> list[NodeId]:
        return list(self.flow.position)

    @cached_property
    def _router_bits(self) -> int:
        return sum(1 << self.flow.position[node] for node in self.choices)

    @cached_property
    def _cyclic_bits(self) -> int:
        return sum(1 << self.flow.position[node] for node in self.flow.cyclic)


def _choices(node: PlanNode, flow: Flow) -> tuple[Choice, ...]:
    """Return the ways to leave a node within its scope."""
    if node.id == flow.entry and node.spec.kind == "region":
        return ()  # the owner as the entry of its own body
    inside = frozenset(flow.successors[node.id])

    def within(targets: Iterable[str]) -> tuple[NodeId, ...]:
        return tuple(NodeId(t) for t in targets if t in inside)

    taken = [Choice(r.label, within(r.targets)) for r in node.routes] or [Choice("", within(node.downstream))]
    if node.on_error.jumps:
        # The author who leads both ways to the same node wants it to go on without the value.
        is_meant = set(node.on_error.goto) <= set(node.downstream)
        taken.append(Choice(ERROR_ROUTE, within(node.on_error.goto), is_failure=not is_meant))
    return (*taken, *(Choice("leaves", within([t])) for t in node.exits))


def _without_places(value: Any) -> Any:
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value)
        return {key: _without_places(entry) for key, entry in entries.items() if key not in _PLACES}
    return [_without_places(entry) for entry in cast("list[Any]", value)] if isinstance(value, list) else value
