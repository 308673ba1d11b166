"""What a user sent for a turn, as readable text and as a hash."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

from ragflow_lg.base.values import to_text

if TYPE_CHECKING:
    from ragflow_lg.component.state import TurnRequest


def hash_request(request: TurnRequest) -> str:
    """Return a hash of what a user sent."""
    parts = [request.get(key) for key in ("query", "inputs", "files", "payload")]
    return sha256(json.dumps(parts, default=repr).encode()).hexdigest()


def question_text(request: TurnRequest) -> str:
    """Return the user's input as readable text: the query, or else one line for each field in a form."""
    query = request.get("query")
    if query:
        return to_text(query)
    lines: list[str] = []
    for name, field in (request.get("inputs") or {}).items():
        value: Any = cast("Mapping[str, Any]", field).get("value") if isinstance(field, dict) else field
        lines.append(f"{name}: {to_text(value)}")
    return "\n".join(lines)
