"""DSL v2, the flat form of a canvas in RAGFlow's Go port. A document in it is converted to DSL v1 first."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from ragflow_lg.base.lenient_values import as_list, as_map, texts_in
from ragflow_lg.dsl_compiler.diagnostics import Reporter, extend_pointer
from ragflow_lg.dsl_compiler.editor_graph import EditorNode, draw_graph
from ragflow_lg.dsl_compiler.flow import find_predecessors

_SHAPE = 'A component is {"id": …, "name": …, "downstream": [ids], "params": {…}}.'

_COMPONENT_KEYS = ("id", "name", "downstream", "params", "outputs")

_REGIONS = ("Loop", "Iteration")

_BEGIN = "begin"
"""The key that RAGFlow looks up for the form, the prologue and the mode."""

_STATE: dict[str, Any] = {"history": [], "path": [], "retrieval": []}
"""What RAGFlow expects in a document besides its components."""

_GLOBALS: dict[str, Any] = {"sys.query": "", "sys.user_id": "", "sys.conversation_turns": 0, "sys.files": []}

_REFERENCE = re.compile(r"([^\s{}@\"']{1,200})@")


class _Component(Struct, frozen=True):
    name: str
    """``component_name`` of DSL v1."""
    downstream: Sequence[str]
    """Ids in DSL v2."""
    params: Mapping[str, Any]


def is_v2(document: Mapping[str, Any]) -> bool:
    """Return whether a document is in DSL v2."""
    version = document.get("version")
    return type(version) is int and version == 2 and isinstance(document.get("components"), Mapping)


def to_v1(document: Mapping[str, Any], base: str, reporter: Reporter) -> dict[str, Any]:
    """Return a document of DSL v2 in DSL v1, or report why it cannot be one.

    It gets keys, empty variables and a drawing as RAGFlow needs them. Later reports about it point into the document in
    DSL v2.

    Args:
        document: A JSON object for which `is_v2` returns true.
        base: JSON pointer to the document in its file.
        reporter: Receives the errors.
    """
    components = _read_components(document, base, reporter)
    keys = {} if reporter.has_errors else _find_keys(components, base, reporter)
    if reporter.has_errors:
        return {}
    upstream = find_predecessors({id_: component.downstream for id_, component in components.items()})
    entries: dict[str, Any] = {}
    nodes: list[EditorNode] = []
    for id_ in sorted(components, key=lambda id_: (not id_.startswith("begin_"), id_)):
        component = components[id_]
        targets, params = [keys[target] for target in component.downstream], dict(component.params)
        obj = {"component_name": component.name, "params": params, "downstream": targets}
        entries[keys[id_]] = {"obj": obj, "downstream": targets, "upstream": [keys[source] for source in upstream[id_]]}
        nodes.append(EditorNode(keys[id_], component.name, params, targets))
    reporter.written_pointer = _Pointers(base, keys)
    return {"components": entries, **_STATE, "globals": dict(_GLOBALS), "graph": draw_graph({}, nodes)}


class _Errors:
    """Reports errors in a document."""

    def __init__(self, base: str, reporter: Reporter) -> None:
        self._base, self._reporter = base, reporter

    def add(self, path: Sequence[str | int], message: str, hint: str = _SHAPE, *, code: str = "document-shape") -> None:
        self._reporter.report(code, "error", extend_pointer(self._base, path), message, hint)

    def check_keys(self, value: Mapping[str, Any], known: Sequence[str], path: Sequence[str]) -> None:
        for key in value:
            if key not in known:
                allowed = ", ".join(known)
                self.add([*path, key], f"DSL v2 has no {key[:80]!r} here, only: {allowed}.")


def _read_components(document: Mapping[str, Any], base: str, reporter: Reporter) -> dict[str, _Component]:
    """Return the components by id, in document order."""
    errors = _Errors(base, reporter)
    errors.check_keys({key: entry for key, entry in document.items() if key != "v1"}, ("version", "components"), [])
    if "v1" in document:
        message = '"v1" is not read: an earlier version wrote into it what DSL v2 cannot say.'
        reporter.report("document-shape", "warning", extend_pointer(base, ["v1"]), message, "Use the canvas in DSL v1.")
    entries = as_map(document["components"])
    if not entries:
        errors.add(["components"], "The document has no components.", code="document-empty")
    components = {id_: _read_component(id_, entry, errors) for id_, entry in entries.items()}
    for id_, component in components.items():
        for index, target in enumerate(component.downstream):
            if target not in components:
                message = f"{id_!r} leads to {target[:80]!r}, which does not exist."
                errors.add(["components", id_, "downstream", index], message, code="target-unknown")
        if component.name in _REGIONS:
            message = f"{id_[:80]!r} is a {component.name}, and DSL v2 does not say which nodes stand in it."
            errors.add(["components", id_], message, "Save the canvas in DSL v1.")
    return components


def _read_component(id_: str, value: Any, errors: _Errors) -> _Component:
    path = ["components", id_]
    entry = as_map(value)
    if not isinstance(value, Mapping):
        errors.add(path, f"Component {id_[:80]!r} should be an object.")
    errors.check_keys(entry, _COMPONENT_KEYS, path)
    if not id_ or ":" in id_:
        errors.add(path, f"{id_[:80]!r} is not an id of DSL v2: ids have at least one letter and no colon.")
    if entry.get("id", id_) != id_:
        errors.add([*path, "id"], f'"id" of {id_[:80]!r} is another one; it should repeat the key.')
    name, downstream, params = (entry.get(key) for key in ("name", "downstream", "params"))
    if not isinstance(name, str) or not name.strip():
        errors.add([*path, "name"] if "name" in entry else path, f"Component {id_[:80]!r} has no name.")
        name = ""
    if downstream is not None and not _are_texts(downstream):
        errors.add([*path, "downstream"], f'"downstream" of {id_[:80]!r} should be a list of ids.')
        downstream = None
    if params is not None and not isinstance(params, Mapping):
        errors.add([*path, "params"], f'"params" of {id_[:80]!r} should be an object.')
    return _Component(name, as_list(downstream), as_map(params))


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in as_list(value))


def _find_keys(components: Mapping[str, _Component], base: str, reporter: Reporter) -> dict[str, str]:
    """Return the keys in DSL v1 by id."""
    mentioned = _find_mentioned_keys([component.params for component in components.values()], components)
    owners: dict[str, str] = {}
    for id_, component in components.items():
        key = mentioned.get(id_) or key_of_id(id_, component.name)
        if key in owners:
            message = f"{owners[key][:80]!r} and {id_[:80]!r} would have the same id in DSL v1, {key[:80]!r}."
            pointer = extend_pointer(base, ["components", id_])
            reporter.report("id-invalid", "error", pointer, message, "Give one of them another id.")
        owners[key] = id_
    return {id_: key for key, id_ in owners.items()}


def key_of_id(id_: str, component_name: str) -> str:
    """Return a key in DSL v1 for an id that no reference names.

    The part before the first ``_`` gets the letter case of the component's name if it is that name, or else a capital
    letter.

    >>> key_of_id("llm_abc", "LLM"), key_of_id("switch_a_b", "Switch"), key_of_id("begin_", "Begin")
    ('LLM:abc', 'Switch:a_b', 'begin')
    """
    end = id_.find("_", 1)
    name, rest = (id_[:end], id_[end + 1 :]) if end > 0 else (id_, "")
    head = component_name if component_name.lower() == name else name[:1].upper() + name[1:]
    if rest:
        return f"{head}:{rest}"
    return _BEGIN if head == "Begin" else head


def _find_mentioned_keys(params: list[Any], ids: Mapping[str, Any]) -> dict[str, str]:
    """Return the keys of DSL v1 by id, as far as references and routes in params name them.

    DSL v2 keeps params as they are, so that they name components by their keys of DSL v1. An id is such a key in lower
    case, with ``_`` for the colon or at the end.
    """
    found: dict[str, str] = {}
    for text in texts_in(params):
        for key in [text, *_REFERENCE.findall(text)] if len(text) <= 200 else _REFERENCE.findall(text):
            name, colon, rest = key.partition(":")
            id_ = f"{name}_{rest}".lower()
            # Without a colon, it is an ordinary word.
            if id_ in ids and name and ":" not in rest and (rest if colon else key == _BEGIN):
                found.setdefault(id_, key)
    return found


class _Pointers:
    """Converts JSON pointers into DSL v1 to pointers into the document in DSL v2."""

    def __init__(self, base: str, keys: Mapping[str, str]) -> None:
        self._base = base
        self._ids = {key: id_ for id_, key in keys.items()}

    def __call__(self, pointer: str) -> str:
        """Return the pointer to the same value, or to the nearest enclosing value that DSL v2 has."""
        path = [part.replace("~1", "/").replace("~0", "~") for part in pointer.removeprefix(self._base).split("/")[1:]]
        if path[:1] != ["components"]:
            return self._base
        if len(path) == 1:
            return pointer
        key, *rest = path[1:]
        if rest[:1] == ["obj"]:
            rest = rest[1:]
        written = rest if rest[:1] in (["params"], ["downstream"]) else []
        return extend_pointer(self._base, ["components", self._ids.get(key, key), *written])
