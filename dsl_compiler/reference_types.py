"""What type of value a reference has, as far as it is known before a run."""

from __future__ import annotations

from collections.abc import Iterator

from ragflow_lg.base.ids import NodeId
from ragflow_lg.component.plan import ERROR, NEXT, PlanNode
from ragflow_lg.dsl.value_types import UNKNOWN, Schema, find_entry, schema_of_type, schema_of_value, type_name
from ragflow_lg.dsl.variable_references import Reference
from ragflow_lg.dsl_compiler.draft import Draft

_OF_ANY_NODE = {ERROR: {"type": "string"}, NEXT: {"type": "array", "items": {"type": "string"}}}

_MAX_DEPTH = 8
"""How many references are followed from an Iteration to its list, and so on."""


class ReferenceTypes:
    """The types of the values in a canvas. Values that a node assigns are unknown."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._assigned = frozenset(assignment_targets(draft))

    def find(self, reference: Reference, depth: int = _MAX_DEPTH) -> Schema | None:
        """Return the JSON schema of a reference's value, or None if the value can have no such entry.

        The schema is `UNKNOWN` if nothing is known.
        """
        whole = self.find_value(reference, depth)
        return find_entry(whole, reference.path) if reference.kind == "output" else whole

    def is_text(self, reference: Reference) -> bool | None:
        """Return whether a value is text, or None if that is unknown."""
        if reference.kind == "global":  # an assignment rarely changes the type of its first value
            value = self._draft.globals.get(reference.key, "")
            return None if value is None else isinstance(value, str)
        name = type_name(self.find(reference) or UNKNOWN)
        return name == "string" if name else None

    def find_value(self, reference: Reference, depth: int = _MAX_DEPTH) -> Schema:
        """Return the JSON schema of the value that contains the entry at the reference's path."""
        if reference.kind == "global":
            return (
                UNKNOWN if reference.key in self._assigned else schema_of_value(self._draft.globals.get(reference.key))
            )
        node = self._draft.nodes.get(NodeId(reference.node))
        if reference.kind != "output" or node is None or f"{reference.node}@{reference.key}" in self._assigned:
            return UNKNOWN
        declared = {**_OF_ANY_NODE, **node.spec.output_schemas(node.params)}.get(reference.key)
        if declared:
            return declared
        field = node.spec.outputs.model_fields.get(reference.key)
        if field is not None and (schema := schema_of_type(field.annotation)):
            return schema
        return self._find_in_region(node, reference.key, depth - 1) if depth else UNKNOWN

    def _find_in_region(self, node: PlanNode, key: str, depth: int) -> Schema:
        """Return the schema of a list that a region collects, or of the item of a round."""
        if node.spec.region is not None:
            collected = node.spec.region.collects(node.params).get(key)
            if collected is None:
                return UNKNOWN
            items = self.find(collected, depth)
            return {"type": "array", **({"items": items} if items else {})}
        owner = self._draft.nodes.get(node.parent) if node.parent else None
        if node.spec.kind == "region_item" and key == "item" and owner is not None and owner.spec.region is not None:
            iterated = owner.spec.region.list_reference(owner.params)
            values = self.find(iterated, depth) if iterated is not None else None
            return find_entry(values, ["0"]) or UNKNOWN if values else UNKNOWN
        return UNKNOWN


def assignment_targets(draft: Draft) -> Iterator[str]:
    """Yield the targets of assignments: the names of globals, and ``node@output``."""
    for node in draft.nodes.values():
        for reference in node.spec.writes(node.params):
            yield reference.key if reference.kind == "global" else f"{reference.node}@{reference.key}"
