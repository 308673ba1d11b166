"""What kind of value a reference has, as far as it is known before a run."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from ragflow_lg.base.ids import NodeId
from ragflow_lg.dsl.forms import form_fields
from ragflow_lg.dsl.variable_references import Reference
from ragflow_lg.dsl_compiler.draft import Draft

ValueKind: TypeAlias = Literal["text", "other", "unknown"]

_TEXT_FIELDS = frozenset({"line", "paragraph", "options", "text"})


def find_value_kind(draft: Draft, reference: Reference) -> ValueKind:
    """Return whether a reference's value is text, is never text, or may be either."""
    if reference.kind == "global":
        return _kind_of_value(draft.globals.get(reference.key, ""))
    node = draft.nodes.get(NodeId(reference.node))
    if reference.kind != "output" or node is None or reference.path:
        return "unknown"
    field = node.spec.outputs.model_fields.get(reference.key)
    if field is not None:
        return _kind_of_type(field.annotation)
    if node.spec.kind in ("entry", "interrupt"):
        for form_field in form_fields(node.params.inputs):
            if form_field.name == reference.key and form_field.type.lower() in _TEXT_FIELDS:
                return "text"
    return "unknown"


def _kind_of_value(value: object) -> ValueKind:
    return "text" if isinstance(value, str) else "unknown" if value is None else "other"


def _kind_of_type(annotation: Any) -> ValueKind:
    if annotation in (str, str | None):
        return "text"
    return "unknown" if annotation in (Any, None) else "other"
