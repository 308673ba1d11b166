"""DSL v1 → v2 → v1 → v2: whether a canvas comes back as it was."""

import json
from pathlib import Path
from typing import Any

from ragflow_lg.base.errors import CompileError
from ragflow_lg.dsl_compiler import convert_source


def read_document(path: Path) -> dict[str, Any]:
    """Read a canvas; one that its template stores as a string becomes a value."""
    document: dict[str, Any] = json.loads(path.read_bytes())
    if isinstance(document.get("dsl"), str):
        document["dsl"] = json.loads(document["dsl"])
    return document


def find_closure_problem(path: Path) -> str:
    """Return how a canvas differs after two conversions, or ``""`` if it comes back with all values.

    Components of a canvas that has only the editor's graph are rebuilt from it, and are then a part of the canvas.
    """
    original = read_document(path)
    try:
        v2 = convert_source(original, "v2")
        v1 = convert_source(json.dumps(v2), "v1")
        again = convert_source(v1, "v2")
    except CompileError as error:
        return f"cannot be converted: {error.diagnostics[0]}"
    inner: dict[str, Any] = original.get("dsl", original)
    if not inner.get("components"):
        inner["components"] = v1.get("dsl", v1)["components"]
    if v1 != original:
        return "DSL v1 differs"
    return "" if json.dumps(again) == json.dumps(v2) else "the bytes of DSL v2 differ"
