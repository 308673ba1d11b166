"""Values in the answers of a server, which may have any type."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from ragflow_lg.base.errors import ForeignJsonError
from ragflow_lg.base.json_scanner import parse_foreign_json
from ragflow_lg.base.values import join_surrogates, to_text

ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""The form of ids that are used in addresses and names of files."""

MAX_TEXT_CHARS = 4_000_000


def as_map(value: Any) -> dict[str, Any]:
    """Return an object with its text keys, or an empty one for anything else."""
    if not isinstance(value, Mapping):
        return {}
    return {key: entry for key, entry in cast("Mapping[Any, Any]", value).items() if isinstance(key, str)}


def as_list(value: Any) -> list[Any]:
    """Return a list, or an empty one for anything else."""
    return list(cast("list[Any]", value)) if isinstance(value, list) else []


def as_rows(value: Any) -> list[dict[str, Any]]:
    """Return the objects in a list; other entries are left out."""
    return [as_map(entry) for entry in as_list(value) if isinstance(entry, Mapping)]


def read_text(row: Mapping[str, Any], *names: str, max_chars: int = MAX_TEXT_CHARS) -> str:
    """Return the first of some fields that is not empty, as text without unpaired surrogates and NUL."""
    value = next((row[name] for name in names if row.get(name) not in (None, "")), "")
    return join_surrogates(to_text(value)[:max_chars].replace("\x00", ""))


def read_number(row: Mapping[str, Any], name: str) -> int:
    """Return a field as a whole number; 0 for anything else, or if it does not fit into 64 bits."""
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value) if abs(value) < 2**63 else 0


def read_object(value: Any) -> dict[str, Any]:
    """Return an object that may be written as JSON text, or an empty one."""
    if isinstance(value, str) and len(value) <= MAX_TEXT_CHARS:
        try:
            value = parse_foreign_json(value)
        except ForeignJsonError:
            return {}
    return as_map(value)


def is_id(value: str) -> bool:
    """Return whether a text can be used as an id in addresses and names of files."""
    return ID.fullmatch(value) is not None
