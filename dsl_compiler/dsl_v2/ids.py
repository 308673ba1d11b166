"""The ids of components in DSL v2, and the keys in DSL v1 that they stand for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ragflow_lg.base.lenient_values import as_map, texts_in
from ragflow_lg.dsl_compiler.diagnostics import extend_pointer

BEGIN = "begin"
"""The key that RAGFlow looks up for the form, the prologue and the mode."""

_REFERENCE = re.compile(r"([^\s{}@\"']{1,200})@")


def id_of_key(key: str) -> str:
    """Return the id in DSL v2 for a key of DSL v1.

    Raises:
        ValueError: if the key has no id: a half of it is empty, or it has two colons.

    >>> id_of_key("Agent:ThreeWolves"), id_of_key("begin")
    ('agent_threewolves', 'begin_')
    """
    name, colon, rest = key.partition(":")
    if not name or (colon and not rest):
        raise ValueError("a part of it is empty")
    if ":" in rest:
        raise ValueError("it has two colons")
    return f"{name}_{rest}".lower()


def key_of_id(id_: str, component_name: str) -> str:
    """Return a key in DSL v1 for an id, for a document that does not say which key it had.

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
    return BEGIN if head == "Begin" else head


def find_mentioned_keys(params: list[Any], ids: Mapping[str, Any]) -> dict[str, str]:
    """Return the keys of DSL v1 by id, as far as references and routes in params name them.

    DSL v2 keeps params as they are, so that they name components by their keys of DSL v1.
    """
    found: dict[str, str] = {}
    for text in texts_in(params):
        for key in [text, *_REFERENCE.findall(text)] if len(text) <= 200 else _REFERENCE.findall(text):
            if ":" not in key and key != BEGIN:
                continue  # an ordinary word
            try:
                id_ = id_of_key(key)
            except ValueError:
                continue
            if id_ in ids:
                found.setdefault(id_, key)
    return found


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
