"""Where a value of DSL v1 stands in the document in DSL v2 that it was read from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragflow_lg.dsl_compiler.diagnostics import extend_pointer
from ragflow_lg.dsl_compiler.dsl_v2.ids import id_of_key
from ragflow_lg.dsl_compiler.lenient_values import as_map


class V2Pointers:
    """Converts JSON pointers into DSL v1 to pointers into a document in DSL v2."""

    def __init__(self, document: Mapping[str, Any], base: str) -> None:
        self._base = base
        self._components = as_map(document.get("components"))
        entries = as_map(as_map(document.get("v1")).get("components"))
        self._ids = {as_map(entry).get("key"): id_ for id_, entry in entries.items()}

    def __call__(self, pointer: str) -> str:
        """Return the pointer to the same value, or to the nearest enclosing value that DSL v2 has."""
        path = [part.replace("~1", "/").replace("~0", "~") for part in pointer.removeprefix(self._base).split("/")[1:]]
        if not path:
            return pointer
        if path[0] != "components":
            return extend_pointer(self._base, ["v1", "document", *path])
        if len(path) == 1:
            return pointer
        key, *rest = path[1:]
        id_ = self._ids.get(key) or self._id_of(key)
        if rest[:1] == ["obj"]:
            rest = rest[1:]
        if rest and rest[0] not in as_map(self._components.get(id_)):
            return extend_pointer(self._base, ["v1", "components", id_, "entry", *rest])
        return extend_pointer(self._base, ["components", id_, *rest])

    def _id_of(self, key: str) -> str:
        try:
            return id_of_key(key)
        except ValueError:
            return key
