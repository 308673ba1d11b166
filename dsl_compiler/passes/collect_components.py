"""Read the components of a document of any shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from msgspec.structs import replace

from ragflow_lg.base.lenient_values import as_list, as_map, as_text, as_texts
from ragflow_lg.component.state import OPERATIONS
from ragflow_lg.dsl_compiler.diagnostics import Reporter, extend_pointer
from ragflow_lg.dsl_compiler.draft import Draft, RawComponent, enclosing
from ragflow_lg.dsl_compiler.passes.components_from_graph import components_from_graph
from ragflow_lg.dsl_compiler.placeholder import LEGACY, PIPELINE

MAX_COMPONENTS = 10_000
"""Limit on components. Real canvases have fewer than 300."""

MAX_NESTING = 100
"""Limit on how many regions enclose a component."""

MAX_ID_CHARS = 1_000
"""Maximum length of an id, which appears in every message about the component."""


def classify_document(draft: Draft, reporter: Reporter) -> Draft:
    """Report an ingestion pipeline, and each component from before RAGFlow 0.20 with its replacement.

    A pipeline is a document in the category ``dataflow_canvas``, or one with a pipeline component but without Begin.
    """
    named = list(_component_names(draft))
    names = {name for name, _ in named}
    pipeline = sorted(names & PIPELINE)
    is_declared = draft.document.get("canvas_category") == "dataflow_canvas" or draft.category == "dataflow_canvas"
    if is_declared or (pipeline and not any(name.lower() == "begin" for name in names)):
        components = f" (it has {', '.join(pipeline)})" if pipeline else ""
        message = f"This is an ingestion pipeline{components}, not an agent canvas; it only prepares documents."
        reporter.report("pipeline-document", "error", draft.base, message, "Run it in RAGFlow or pass an agent canvas.")
        return draft
    for name, pointer in named:
        if name in LEGACY and draft.catalog.get(name) is None:
            message = f"{name} was removed in RAGFlow 0.20."
            reporter.report("legacy-component", "error", pointer, message, f"Replaced by {LEGACY[name]}.")
    return draft


def _component_names(draft: Draft) -> Iterator[tuple[str, str]]:
    """Yield every component name with its pointer, from ``components`` or, if that is empty, from ``graph``."""
    components = draft.document.get("components")
    if isinstance(components, Mapping) and components:
        base = extend_pointer(draft.base, ["components"])
        for id_, component in as_map(components).items():
            if isinstance(component, Mapping):
                outer = as_map(component)
                inner = as_map(outer["obj"]) if isinstance(outer.get("obj"), Mapping) else outer
                name = inner.get("component_name") or inner.get("name")
                if isinstance(name, str):
                    yield name, extend_pointer(base, [id_])
        return
    for index, node in enumerate(as_list(as_map(draft.document.get("graph")).get("nodes"))):
        label = as_map(as_map(node).get("data")).get("label")
        if isinstance(label, str):
            yield label, extend_pointer(draft.base, ["graph", "nodes", index])


def collect_components(draft: Draft, reporter: Reporter) -> Draft:
    """Read ``components``. If an editor's export does not contain them, rebuild them from ``graph``.

    ``upstream`` is implied by ``downstream`` and is ignored. Titles, and parents missing from ``components``, are read
    from the graph.
    """
    components = draft.document.get("components")
    if components is not None and not isinstance(components, Mapping):
        message = f'"components" is {_kind(components)}; it should be an object with a component for each id.'
        pointer = extend_pointer(draft.base, ["components"])
        reporter.report("document-shape", "error", pointer, message, "Export the canvas again.")
        return draft
    if components:
        collected = _read_components(draft, as_map(components), reporter)
    else:
        collected = components_from_graph(draft.document, draft.base, reporter)
    if not collected and not reporter.has_errors:
        message = "The document has no components."
        hint = 'A canvas has "components", or a "graph" with nodes. Check whether this is the right file.'
        reporter.report("document-empty", "error", draft.base, message, hint)
    if problem := _size_problem(collected):
        hint = "Split it into several canvases."
        reporter.report("document-too-large", "error", draft.base, problem, hint)
        return draft
    return replace(draft, components={c.id: c for c in collected if _has_usable_id(c, reporter)})


def _size_problem(collected: Sequence[RawComponent]) -> str:
    """Return the reason why later passes cannot handle the canvas in bounded time, or ``""``."""
    if len(collected) > MAX_COMPONENTS:
        return f"The canvas has {len(collected):,} components; the limit is {MAX_COMPONENTS:,}."
    components = {component.id: component for component in collected}
    for component in collected:
        if sum(1 for _ in islice(enclosing(component, components), MAX_NESTING + 1)) > MAX_NESTING:
            return f"Regions are nested more than {MAX_NESTING} levels deep."
    return ""


def _read_components(draft: Draft, components: Mapping[str, Any], reporter: Reporter) -> list[RawComponent]:
    nodes = {
        as_text(node.get("id")): node for node in map(as_map, as_list(as_map(draft.document.get("graph")).get("nodes")))
    }
    collected: list[RawComponent] = []
    for id_, value in components.items():
        pointer = extend_pointer(draft.base, ["components", id_])
        component = _read_component(id_, value, pointer, nodes.get(id_, {}), reporter)
        if component is not None:
            collected.append(component)
    return collected


def _read_component(
    id_: str, value: Any, pointer: str, graph_node: Mapping[str, Any], reporter: Reporter
) -> RawComponent | None:
    if not isinstance(value, Mapping):
        _report_malformed(reporter, pointer, f"Component {id_!r} is {_kind(value)}, not an object.")
        return None
    outer = as_map(value)
    obj, is_flat = as_map(outer.get("obj")), "obj" not in outer
    inner = outer if is_flat else obj
    name = inner.get("component_name") or (inner.get("name") if is_flat else None)
    if not isinstance(name, str) or not name.strip():
        _report_malformed(reporter, pointer, f"Component {id_!r} has no component_name.")
        return None
    params, path = inner.get("params"), [] if is_flat else ["obj"]
    params_pointer = extend_pointer(pointer, [*path, "params"])
    if params is not None and not isinstance(params, Mapping):
        _report_malformed(reporter, params_pointer, f"The params of {id_!r} are {_kind(params)}, not an object.")
        return None
    _check_downstream(id_, outer.get("downstream"), extend_pointer(pointer, ["downstream"]), reporter)
    downstream, extra = _read_downstream(outer.get("downstream"))
    data = as_map(graph_node.get("data"))
    return RawComponent(
        id_,
        name.strip(),
        {**as_map(params), **extra},
        downstream,
        as_text(outer.get("parent_id")) or as_text(graph_node.get("parentId")) or None,
        pointer,
        params_pointer,
        as_text(data.get("name")),
    )


def _check_downstream(id_: str, value: Any, pointer: str, reporter: Reporter) -> None:
    """Report targets in a form that RAGFlow cannot follow. A single id as text is still read as that id."""
    if value is None or isinstance(value, Mapping):
        return
    hint = 'Write a list of ids: "downstream": ["ID"].'
    if isinstance(value, str):
        message = f'"downstream" of {id_!r} is a string, not a list; RAGFlow would read each letter as an id.'
        if value:
            reporter.report("document-shape", "warning", pointer, message, 'Put it into a list: ["…"].')
        return
    if not isinstance(value, list):
        message = f'"downstream" of {id_!r} is {_kind(value)}, not a list of ids.'
        reporter.report("document-shape", "error", pointer, message, hint)
        return
    for index, entry in enumerate(as_list(value)):
        if not isinstance(entry, str):
            message = f'An entry in "downstream" of {id_!r} is {_kind(entry)}, not an id; it is ignored.'
            reporter.report("document-shape", "warning", f"{pointer}/{index}", message, "Remove it.")
            return


def _read_downstream(value: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return the targets and a parameter that preserves a simplified Categorize's map from category to targets."""
    if isinstance(value, Mapping):
        targets = {key: as_texts(entry) for key, entry in as_map(value).items()}
        all_targets = tuple(dict.fromkeys(t for entry in targets.values() for t in entry))
        return all_targets, {"downstream": {key: list(entry) for key, entry in targets.items()}}
    return as_texts(value), {}


def _has_usable_id(component: RawComponent, reporter: Reporter) -> bool:
    if component.id and component.id != OPERATIONS and len(component.id) <= MAX_ID_CHARS:
        return True
    short_id = component.id if len(component.id) <= MAX_ID_CHARS else component.id[:60] + "…"
    message = f"{short_id!r} is not a valid component id."
    hint = "Give it a short id that consists of letters, digits, '_' and ':'."
    reporter.report("id-invalid", "error", replace(component, id=short_id).place(), message, hint)
    return False


def _kind(value: Any) -> str:
    names = {
        "str": "a string",
        "list": "a list",
        "dict": "an object",
        "bool": "true or false",
        "int": "a number",
        "float": "a number",
    }
    return names.get(type(value).__name__, "null")


def _report_malformed(reporter: Reporter, pointer: str, message: str) -> None:
    hint = 'A component is {"obj": {"component_name": …, "params": {…}}, "downstream": […]}.'
    reporter.report("document-shape", "error", pointer, message, hint)
