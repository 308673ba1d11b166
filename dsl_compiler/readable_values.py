"""Which values a node can read: those of nodes that can have run before it, and globals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

from msgspec import Struct

from ragflow_lg.component.plan import PlanNode
from ragflow_lg.dsl.value_types import UNKNOWN, Schema
from ragflow_lg.dsl.variable_references import Reference, parse_reference
from ragflow_lg.dsl_compiler.draft import Children, Draft, group_by_region
from ragflow_lg.dsl_compiler.reference_types import ReferenceTypes

ITEM_NAMES = ("item", "index")
"""Short names in the body of an Iteration. A third one, ``result``, is another name of ``item``."""

MAX_LEVELS = 50
"""Limit on nested regions, which ends a search in regions that contain each other."""


class ReadableValue(NamedTuple):
    """A value that a node can read."""

    text: str
    """The reference, without braces."""
    schema: Schema
    """Its type as far as it is known, as a JSON schema."""
    node: PlanNode | None = None
    """The node whose output it is; None for globals and short names."""


class ReadableValues(Struct, frozen=True, dict=True):
    """The values of a canvas after all passes."""

    draft: Draft

    @cached_property
    def types(self) -> ReferenceTypes:
        """The types of the values."""
        return ReferenceTypes(self.draft)

    @cached_property
    def _children(self) -> Children:
        return group_by_region(self.draft)

    def outputs(self, node: PlanNode) -> Iterator[ReadableValue]:
        """Yield the outputs of a node that are known before a run."""
        names = (*node.outputs, *(node.spec.output_names(node.params) or ()))
        for name in dict.fromkeys(names):
            reference = parse_reference(f"{node.id}@{name}")
            if reference is not None and not name.startswith("_"):
                yield ReadableValue(reference.text, self.schema(reference), node)

    def schema(self, reference: Reference) -> Schema:
        """Return the type of a reference's value, as far as it is known."""
        if reference.key.startswith("sys.") and self.draft.globals.get(reference.key) == "":
            return {"type": "string"}  # it is empty until a turn starts
        return self.types.find(reference) or UNKNOWN

    def _item_schema(self, owner: PlanNode, name: str) -> Schema:
        region = self.draft.regions.get(owner.id)
        reference = parse_reference(f"{region.item}@{name}") if region is not None and region.item else None
        return UNKNOWN if reference is None else self.schema(reference)

    def readable_by(self, reader: PlanNode) -> Iterator[ReadableValue]:
        """Yield what a node can read: first the outputs of nodes near to it, at last the globals."""
        for node, names in self._nodes_before(reader):
            yield from (v for v in self.outputs(node) if names is None or v.text.partition("@")[2] in names)
        owner = self.draft.nodes.get(reader.parent) if reader.parent else None
        if owner is not None and owner.spec.yields_items:
            yield from (ReadableValue(name, self._item_schema(owner, name)) for name in ITEM_NAMES)
        for name in self.draft.globals:
            if reference := parse_reference(name):
                yield ReadableValue(name, self.schema(reference))

    def _nodes_before(self, reader: PlanNode) -> Iterator[tuple[PlanNode, frozenset[str] | None]]:
        """Yield nodes that can have run before a node, each with the names of the outputs that exist then, or None."""
        if reader.spec.region is not None:  # its conditions, and the lists that it collects, read its body
            yield from ((node, None) for node in self._children.get(reader.id, ()))
        earlier: list[PlanNode] = []
        for _ in range(MAX_LEVELS):
            flow = self.draft.flows.get(reader.parent)
            inside = self._children.get(reader.parent, ())
            before = [n for n in inside if n.id != reader.id and flow is not None and flow.is_ancestor(n.id, reader.id)]
            earlier += (node for node in before if node.spec.region is not None)
            yield from ((node, None) for node in sorted(before, key=lambda node: -node.rank))
            owner = self.draft.nodes.get(reader.parent) if reader.parent else None
            if owner is None:
                break
            collected: Mapping[str, Reference] = owner.spec.region.collects(owner.params) if owner.spec.region else {}
            yield owner, frozenset({*owner.outputs, *(owner.spec.output_names(owner.params) or ())}) - set(collected)
            reader = owner
        yield from ((node, None) for node in self._bodies(earlier))

    def _bodies(self, regions: list[PlanNode]) -> Iterator[PlanNode]:
        """Yield the nodes inside regions that have run: they keep the values of the last round."""
        for _ in range(MAX_LEVELS):
            inside = [node for region in regions for node in self._children.get(region.id, ())]
            yield from (node for node in inside if node.spec.kind != "region_item")
            regions = [node for node in inside if node.spec.region is not None]
            if not regions:
                return
