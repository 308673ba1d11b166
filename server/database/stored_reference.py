"""The sources that an answer cites, as they are stored with its message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, cast

import orjson

Reference: TypeAlias = dict[str, dict[str, Any]]
"""``{"chunks": {number: chunk}, "doc_aggs": {document name: document}}``, as in RAGFlow's sessions."""


def to_reference(sources: Any) -> Reference:
    """Return the reference with the ``reference`` of a ``message_end``. Anything in another shape is ignored."""
    reference: Reference = {"chunks": {}, "doc_aggs": {}}
    for name, rows in reference.items():
        added: Any = cast("Mapping[str, Any]", sources).get(name) if isinstance(sources, dict) else None
        if isinstance(added, dict):
            known = cast("Mapping[Any, Any]", added)
            rows |= {str(key): row for key, row in known.items() if isinstance(row, dict)}
    return reference


def write_reference(sources: Any) -> str:
    """Return the text that is stored: JSON, or ``""`` if nothing is cited."""
    reference = to_reference(sources)
    return orjson.dumps(reference).decode() if any(reference.values()) else ""


def read_reference(text: str) -> Reference:
    """Return a stored reference."""
    return to_reference(orjson.loads(text) if text else {})


def read_chunks(text: str) -> list[dict[str, Any]]:
    """Return the chunks of a stored reference, each with its number as ``citation_id``."""
    return list_chunks(read_reference(text))


def list_chunks(reference: Reference) -> list[dict[str, Any]]:
    """Return the chunks of a reference, each with its number as ``citation_id``."""
    return [{**chunk, "citation_id": number} for number, chunk in reference["chunks"].items()]
