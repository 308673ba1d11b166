"""One form of a canvas file: stable order and indentation, without the state of a stored run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ragflow_lg.base.errors import CompileError
from ragflow_lg.base.lenient_values import as_list, as_map
from ragflow_lg.dsl_compiler.compiler import Source, add_positions
from ragflow_lg.dsl_compiler.diagnostics import Reporter
from ragflow_lg.dsl_compiler.source import read_source

_RUN_STATE: dict[str, Any] = {"history": [], "messages": [], "path": [], "retrieval": [], "task_id": None, "answer": []}
"""What RAGFlow stores of a run in the document, with its value in a canvas that has not run; None: it is left out."""

_RUN_GLOBALS: dict[str, Any] = {
    "sys.conversation_turns": 0,
    "sys.date": "",
    "sys.files": [],
    "sys.history": [],
    "sys.query": "",
    "sys.user_id": "",
}

_EDITOR_STATE = frozenset(["dragging", "measured", "positionAbsolute", "resizing", "selected"])
"""What the editor stores about a drawn node while someone works with it."""

_FIRST = ("id", "title", "description", "canvas_type", "canvas_category", "dsl", "component_name", "name")
"""Keys that stand before the others, which are in alphabetical order."""


def format_canvas(source: Source) -> str:
    """Return a canvas in the canonical form. Formatting it again changes nothing.

    Components keep their order, which decides the order of nodes that run at the same time.

    Raises:
        CompileError: if the source is not a JSON object.
    """
    reporter = Reporter()
    value, text = read_source(source, reporter)
    if reporter.has_errors or not isinstance(value, Mapping):
        if not reporter.has_errors:
            hint = "A canvas is a single JSON object."
            reporter.report("document-shape", "error", "", "The file is not a JSON object.", hint)
        raise CompileError(add_positions(reporter.diagnostics, text))
    wrapper = dict(as_map(value))
    if isinstance(wrapper.get("dsl"), Mapping) and "components" not in wrapper:
        wrapper["dsl"] = _without_state(as_map(wrapper["dsl"]))
    else:
        wrapper = _without_state(wrapper)
    return json.dumps(_sort(wrapper, ()), indent=2, ensure_ascii=False) + "\n"


def _without_state(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document without the state of a run and of the editor."""
    reset = {key: _RUN_STATE.get(key, value) for key, value in document.items()}
    kept = {key: value for key, value in reset.items() if key not in _RUN_STATE or _RUN_STATE[key] is not None}
    values = as_map(document.get("globals"))
    if values:
        kept["globals"] = {key: _RUN_GLOBALS.get(key, value) for key, value in values.items()}
    graph = as_map(document.get("graph"))
    if graph:
        kept["graph"] = {
            key: [_plain_node(entry) for entry in as_list(value)] if key in ("nodes", "edges") else value
            for key, value in graph.items()
        }
    return kept


def _plain_node(entry: Any) -> Any:
    return {key: value for key, value in as_map(entry).items() if key not in _EDITOR_STATE}


def _sort(value: Any, path: tuple[str, ...]) -> Any:
    """Sort keys, but neither components nor the categories and variables whose order means something."""
    if isinstance(value, list):
        return [_sort(entry, (*path, "")) for entry in as_list(value)]
    if not isinstance(value, Mapping):
        return value
    entries = as_map(value)
    has_order = bool(path) and path[-1] in ("components", "category_description", "inputs", "outputs", "arguments")
    keys = list(entries) if has_order else sorted(entries, key=_rank)
    return {key: _sort(entries[key], (*path, key)) for key in keys}


def _rank(key: str) -> tuple[int, str]:
    return (_FIRST.index(key), key) if key in _FIRST else (len(_FIRST), key)
