"""The sources that an answer cites, as they are stored with its message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, cast

import orjson

Reference: TypeAlias = dict[str, dict[str, Any]]
"""``{"chunks": {number: chunk}, "doc_aggs": {document name: document}}``, as in RAGFlow's sessions."""


def empty_reference() -> Reference:
    """Return the reference of an answer that cites nothing."""
    return {"chunks": {}, "doc_aggs": {}}


def add_sources(reference: Reference, more: Any) -> None:
    """Add the ``reference`` of a ``message_end``. Anything in another shape is ignored."""
    if not isinstance(more, dict):
        return
    for name, sources in reference.items():
        added: Any = cast("Mapping[str, Any]", more).get(name)
        if isinstance(added, dict):
            rows = cast("Mapping[Any, Any]", added)
            sources |= {str(key): row for key, row in rows.items() if isinstance(row, dict)}


def write_reference(reference: Reference) -> str:
    """Return the text that is stored: JSON, or ``""`` if nothing is cited."""
    return orjson.dumps(reference).decode() if any(reference.values()) else ""


def read_reference(text: str) -> Reference:
    """Return a stored reference."""
    reference = empty_reference()
    add_sources(reference, orjson.loads(text) if text else {})
    return reference


def read_chunks(text: str) -> list[dict[str, Any]]:
    """Return the chunks of a stored reference, each with its number as ``citation_id``."""
    return list_chunks(read_reference(text))


def list_chunks(reference: Reference) -> list[dict[str, Any]]:
    """Return the chunks of a reference, each with its number as ``citation_id``."""
    return [{**chunk, "citation_id": number} for number, chunk in reference["chunks"].items()]
