"""DSL v1 to DSL v2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragflow_lg.base.lenient_values import as_list, as_map
from ragflow_lg.dsl_compiler.diagnostics import Reporter, extend_pointer
from ragflow_lg.dsl_compiler.dsl_v2.document import VERSION, ComponentV2
from ragflow_lg.dsl_compiler.dsl_v2.ids import id_of_key
from ragflow_lg.dsl_compiler.flow import find_predecessors

_RECORDS = ("_deprecated_params", "_feeded_deprecated_params", "_user_feeded_params")
"""RAGFlow's own records of which params were given."""


def to_v2(document: Mapping[str, Any], base: str, reporter: Reporter, *, is_plain: bool = False) -> dict[str, Any]:
    """Return a document of DSL v1 in DSL v2, or report why it cannot be one.

    Args:
        document: A DSL v1 document, without a template's wrapper.
        base: JSON pointer to the document in its file.
        reporter: Receives the errors.
        is_plain: Whether to leave ``v1`` out, as RAGFlow's Go port does. Variables, the nodes inside a Loop or
            Iteration, and the editor's drawing are lost then.
    """
    entries = as_map(document.get("components"))
    if not entries:
        pointer = extend_pointer(base, ["components"])
        hint = "DSL v2 has no graph; save the canvas in the editor, which writes its components."
        reporter.report("document-empty", "error", pointer, "The document has no components.", hint)
    ids = _ids(entries, base, reporter)
    components = {
        ids[key]: _read_component(key, ids, as_map(entry), extend_pointer(base, ["components", key]), reporter)
        for key, entry in entries.items()
        if key in ids
    }
    if reporter.has_errors:
        return {}
    converted: dict[str, Any] = {
        "version": VERSION,
        "components": {
            id_: {"id": id_, "name": c.name, "downstream": list(c.downstream), "params": dict(c.params)}
            for id_, c in components.items()
        },
    }
    if not is_plain:
        upstream = find_predecessors({id_: component.downstream for id_, component in components.items()})
        keys = {id_: key for key, id_ in ids.items()}
        converted["v1"] = {
            "components": {
                id_: _rest_of(as_map(entries[keys[id_]]), component, keys, upstream[id_])
                for id_, component in components.items()
            },
            "document": {key: value for key, value in document.items() if key != "components"},
        }
    return converted


def _ids(entries: Mapping[str, Any], base: str, reporter: Reporter) -> dict[str, str]:
    ids: dict[str, str] = {}
    owners: dict[str, str] = {}
    for key in entries:
        pointer = extend_pointer(base, ["components", key])
        try:
            id_ = id_of_key(key)
        except ValueError as error:
            reporter.report("id-invalid", "error", pointer, f"{key[:80]!r} has no id in DSL v2: {error}.")
            continue
        if id_ in owners:
            message = f"{owners[id_][:80]!r} and {key[:80]!r} would have the same id in DSL v2, {id_[:80]!r}."
            reporter.report("id-invalid", "error", pointer, message, "Give one of them another id.")
            continue
        ids[key] = id_
        owners[id_] = key
    return ids


def _read_component(
    key: str, ids: Mapping[str, str], entry: Mapping[str, Any], pointer: str, reporter: Reporter
) -> ComponentV2:
    obj = as_map(entry.get("obj")) if "obj" in entry else entry
    name = obj.get("component_name") or (obj.get("name") if "obj" not in entry else None)
    if not isinstance(name, str) or not name.strip():
        # The name stands in the key as well.
        name = key.partition(":")[0]
        if not entry:
            reporter.report("document-shape", "error", pointer, f"Component {key[:80]!r} is not an object.")
    targets = entry["downstream"] if "downstream" in entry else obj.get("downstream")
    downstream: list[str] = []
    for index, target in enumerate(_targets(targets)):
        if target not in ids:
            place = extend_pointer(pointer, ["downstream", index])
            message = f"{key[:80]!r} leads to {target[:80]!r}, which does not exist."
            reporter.report("target-unknown", "error", place, message)
        elif ids[target] not in downstream:
            downstream.append(ids[target])
    params = {name: value for name, value in as_map(obj.get("params")).items() if name not in _RECORDS}
    return ComponentV2(ids[key], name, downstream, params)


def _targets(value: Any) -> list[str]:
    """Return the targets of a component. A simplified Categorize has a map from category to targets."""
    if isinstance(value, str):
        return [value] if value else []
    values: list[Any] = list(as_map(value).values()) if isinstance(value, Mapping) else as_list(value)
    targets: list[str] = []
    for entry in values:
        targets += [entry] if isinstance(entry, str) else [text for text in as_list(entry) if isinstance(text, str)]
    return [target for target in targets if target]


def _rest_of(
    entry: Mapping[str, Any], component: ComponentV2, keys: Mapping[str, str], upstream: Sequence[str]
) -> dict[str, Any]:
    """Return what DSL v1 has of a component and DSL v2 has not."""
    rest: dict[str, Any] = {"key": keys[component.id], "digest": component.digest()}
    targets = [keys[target] for target in component.downstream]
    obj = entry.get("obj")
    is_usual = (
        isinstance(obj, Mapping)
        and as_map(obj).get("component_name") == component.name
        and isinstance(as_map(obj).get("params"), Mapping)
        and entry.get("downstream") == targets
        and entry.get("upstream", []) is not None
    )
    if not is_usual:
        return {**rest, "entry": dict(entry), "obj": None}
    outer = {key: value for key, value in entry.items() if key not in ("obj", "downstream")}
    if "upstream" not in outer:
        outer["upstream"] = None
    elif outer["upstream"] == [keys[id_] for id_ in upstream]:
        del outer["upstream"]
    inner = {key: value for key, value in as_map(obj).items() if key not in ("component_name", "params")}
    records = {key: value for key, value in as_map(as_map(obj)["params"]).items() if key in _RECORDS}
    parts = {"entry": outer, "obj": inner, "params": records}
    return {**rest, **{name: part for name, part in parts.items() if part}}
