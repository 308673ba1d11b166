"""Types: references to values that the component cannot use, and to entries that a value cannot have."""

from __future__ import annotations

from collections.abc import Iterator

from ragflow_lg.component.plan import PlanNode
from ragflow_lg.dsl.value_types import ExpectedType, find_entry, type_name
from ragflow_lg.dsl.variable_references import Reference
from ragflow_lg.dsl_compiler.analysis.canvas import AnalysedCanvas
from ragflow_lg.dsl_compiler.diagnostics import Nearest, Reporter

_NAMES = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "empty",
}

MAX_LISTED = 12


def check_types(canvas: AnalysedCanvas, reporter: Reporter) -> None:
    """Warn about values of a wrong type. A type that is not known before the run is never wrong."""
    for node in canvas.draft.nodes.values():
        raw = canvas.draft.components[node.id]
        for reference, path in node.references:
            if problem := _missing_entry(canvas, reference):
                message, hint = problem
                reporter.report("reference-unknown-entry", "warning", raw.param_place(*path), message, hint)
        paths = dict(node.references)
        for expected in _expectations(node):
            schema = canvas.types.find(expected.reference)
            name = type_name(schema) if schema else ""
            if name in _NAMES and name not in expected.types:
                wanted = " or ".join(_NAMES[t] for t in sorted(expected.types))
                message = f"{expected.reference.text!r} is {_NAMES[name]}; {expected.consequence}."
                hint = f"Use a value that is {wanted}."
                place = raw.param_place(*paths.get(expected.reference, ()))
                reporter.report("value-type", "warning", place, message, hint)


def _expectations(node: PlanNode) -> Iterator[ExpectedType]:
    yield from node.spec.expects(node.params)
    if node.spec.region is not None and not node.spec.region.accepts_single(node.params):
        iterated = node.spec.region.list_reference(node.params)
        if iterated is not None:
            consequence = f"{node.spec.name} iterates over a list and fails without one"
            yield ExpectedType(iterated, frozenset({"array"}), consequence)


def _missing_entry(canvas: AnalysedCanvas, reference: Reference) -> tuple[str, str] | None:
    if reference.kind != "output" or not reference.path or canvas.types.find(reference) is not None:
        return None
    value = canvas.types.find_value(reference)
    entry = reference.path[0]
    for length, key in enumerate(reference.path):
        inner = find_entry(value, reference.path[: length + 1])
        if inner is None:
            value, entry = find_entry(value, reference.path[:length]) or value, key
            break
    names = list(value.get("properties", ()))
    listed = ", ".join(names[:MAX_LISTED]) + (", …" if len(names) > MAX_LISTED else "")
    hint = Nearest(names).hint(entry, f"Its entries: {listed}." if names else "Use the value itself.")
    return f"{reference.text!r} has no entry {entry!r}; its value is empty.", hint
