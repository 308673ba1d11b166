"""The canvas hash, which is stored with runs: it tells whether the canvas has changed since a turn began."""

from __future__ import annotations

import hashlib
import json

from ragflow_lg.base.values import JsonValue


def hash_canvas(plan: JsonValue) -> str:
    """Return the SHA-256 hash of a plan as canonical JSON, in hexadecimal. Equal canvases have equal plans."""
    text = json.dumps(plan, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
