"""A document in DSL v2: its parts, and a strict reader.

Beside ``version`` and ``components``, a document of ours has ``v1``: what DSL v1 has and DSL v2 lacks. RAGFlow's Go
port writes documents without it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from msgspec import Struct, field

from ragflow_lg.base.lenient_values import as_list, as_map
from ragflow_lg.dsl_compiler.diagnostics import Reporter, extend_pointer

VERSION = 2

_SHAPE = 'A component is {"id": …, "name": …, "downstream": [ids], "params": {…}}.'

COMPONENT_KEYS = ("id", "name", "downstream", "params", "outputs")
V1_KEYS = ("key", "digest", "entry", "obj", "params")


class ComponentV2(Struct, frozen=True):
    """A component in DSL v2."""

    id: str
    name: str
    """``component_name`` of DSL v1."""
    downstream: Sequence[str]
    """Ids in DSL v2."""
    params: Mapping[str, Any]

    def digest(self) -> str:
        """Return a short hash, by which `to_v1` notices that the component was edited."""
        content = orjson.dumps([self.name, list(self.downstream), self.params], option=orjson.OPT_NON_STR_KEYS)
        return hashlib.sha256(content).hexdigest()[:16]


class V1Component(Struct, frozen=True):
    """What the component has in DSL v1 and not in DSL v2."""

    key: str
    digest: str
    """Of the component when it was converted."""
    entry: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Beside ``obj`` and ``downstream``. A missing ``upstream`` follows from ``downstream``; null: there is none."""
    obj: Mapping[str, Any] | None = field(default_factory=dict[str, Any])
    """Beside ``component_name`` and ``params``. None: ``entry`` is the component as a whole."""
    params: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """RAGFlow's own records of which params were given."""


class DocumentV2(Struct, frozen=True):
    """A canvas in DSL v2."""

    components: Mapping[str, ComponentV2]
    """By id, in document order."""
    v1_components: Mapping[str, V1Component] = field(default_factory=dict[str, V1Component])
    """By id."""
    v1_document: Mapping[str, Any] | None = None
    """The keys of DSL v1 beside ``components``. None: the document does not have them."""


def is_v2(document: Mapping[str, Any]) -> bool:
    """Return whether a document is in DSL v2."""
    version = document.get("version")
    return type(version) is int and version == VERSION and isinstance(document.get("components"), Mapping)


def read_document(document: Mapping[str, Any], base: str, reporter: Reporter) -> DocumentV2 | None:
    """Return a document in DSL v2, or report why it is none.

    Args:
        document: A JSON object for which `is_v2` returns true.
        base: JSON pointer to the document in its file.
        reporter: Receives the errors.
    """
    errors = _Errors(base, reporter)
    errors.check_keys(document, ("version", "components", "v1"), [])
    entries = as_map(document["components"])
    if not entries:
        errors.add(["components"], "The document has no components.", code="document-empty")
    components = {id_: _read_component(id_, entry, errors) for id_, entry in entries.items()}
    for id_, component in components.items():
        for index, target in enumerate(component.downstream):
            if target not in components:
                message = f"{id_!r} leads to {target[:80]!r}, which does not exist."
                errors.add(["components", id_, "downstream", index], message, code="target-unknown")
    v1 = errors.map_at(document, "v1", ["v1"])
    errors.check_keys(v1, ("components", "document"), ["v1"])
    v1_entries = errors.map_at(v1, "components", ["v1", "components"])
    v1_components = {id_: _read_v1_component(id_, entry, errors) for id_, entry in v1_entries.items()}
    v1_document = errors.map_at(v1, "document", ["v1", "document"]) if "document" in v1 else None
    return None if errors.count else DocumentV2(components, v1_components, v1_document)


class _Errors:
    """Reports errors in a document, and counts them."""

    def __init__(self, base: str, reporter: Reporter) -> None:
        self.count = 0
        self._base, self._reporter = base, reporter

    def add(self, path: Sequence[str | int], message: str, *, code: str = "document-shape") -> None:
        self.count += 1
        self._reporter.report(code, "error", extend_pointer(self._base, path), message, _SHAPE)

    def check_keys(self, value: Mapping[str, Any], known: Sequence[str], path: Sequence[str]) -> None:
        for key in value:
            if key not in known:
                allowed = ", ".join(known)
                self.add([*path, key], f"DSL v2 has no {key[:80]!r} here, only: {allowed}.")

    def map_at(self, value: Mapping[str, Any], key: str, path: Sequence[str]) -> Mapping[str, Any]:
        """Return an object that may be left out."""
        entry = value.get(key)
        if entry is not None and not isinstance(entry, Mapping):
            self.add(path, f"{key!r} should be an object.")
        return as_map(entry)


def _read_component(id_: str, value: Any, errors: _Errors) -> ComponentV2:
    path = ["components", id_]
    entry = as_map(value)
    if not isinstance(value, Mapping):
        errors.add(path, f"Component {id_[:80]!r} should be an object.")
    errors.check_keys(entry, COMPONENT_KEYS, path)
    if not id_ or ":" in id_:
        errors.add(path, f"{id_[:80]!r} is not an id of DSL v2: ids have at least one letter and no colon.")
    if entry.get("id", id_) != id_:
        errors.add([*path, "id"], f'"id" of {id_[:80]!r} is another one; it should repeat the key.')
    name, downstream = entry.get("name"), entry.get("downstream")
    if not isinstance(name, str) or not name.strip():
        errors.add([*path, "name"] if "name" in entry else path, f"Component {id_[:80]!r} has no name.")
        name = ""
    if downstream is not None and not _are_texts(downstream):
        errors.add([*path, "downstream"], f'"downstream" of {id_[:80]!r} should be a list of ids.')
        downstream = None
    params = errors.map_at(entry, "params", [*path, "params"])
    return ComponentV2(id_, name, as_list(downstream), params)


def _read_v1_component(id_: str, value: Any, errors: _Errors) -> V1Component:
    path = ["v1", "components", id_]
    entry = as_map(value)
    if not isinstance(value, Mapping):
        errors.add(path, f"What DSL v1 has of {id_[:80]!r} should be an object.")
    errors.check_keys(entry, V1_KEYS, path)
    texts: dict[str, str] = {}
    for name in ("key", "digest"):
        text = entry.get(name)
        if not isinstance(text, str) or not text:
            errors.add(path, f"What DSL v1 has of {id_[:80]!r} lacks {name!r}.")
        texts[name] = text if isinstance(text, str) else ""
    maps = {name: errors.map_at(entry, name, [*path, name]) for name in ("entry", "obj", "params")}
    obj = None if "obj" in entry and entry["obj"] is None else maps["obj"]
    return V1Component(texts["key"], texts["digest"], maps["entry"], obj, maps["params"])


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in as_list(value))
