"""Document metadata, from front matter or from a separate file ``NAME.meta.json``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.values import JsonValue, to_json

SIDECAR = ".meta.json"
"""Suffix of a document's metadata file."""

_ENTRY = re.compile(r"([\w.-]{1,64})[ \t]*:[ \t]*(.*)$")
_ITEM = re.compile(r"[ \t]+-[ \t]+(.+)$|-[ \t]+(.+)$")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,15})(?:\.[0-9]{1,15})?$")
_MAX_LINES = 200
_CONSTANTS: Mapping[str, JsonValue] = {"true": True, "false": False, "null": None, "~": None, "": None}


def split_front_matter(text: str) -> tuple[dict[str, JsonValue], int]:
    r"""Parse ``key: value`` lines between two ``---`` lines; return the values and the number of front matter lines.

    Values are strings, numbers, booleans and lists (``[a, b]``, or lines ``- a``). Anything else counts as text, so
    that nothing is lost.

    >>> split_front_matter("---\nyear: 2026\ntags: [a, b]\n---\nText")
    ({'year': 2026, 'tags': ['a', 'b']}, 4)
    """
    lines = re.split(r"\r\n|\r|\n", text[:65536])[: _MAX_LINES + 2]
    if not lines or lines[0].rstrip() != "---":
        return {}, 0
    metadata: dict[str, JsonValue] = {}
    open_list: list[JsonValue] | None = None
    for number, line in enumerate(lines[1:], 2):
        if line.rstrip() in ("---", "..."):
            return {key: value for key, value in metadata.items() if value not in (None, [])}, number
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if (item := _ITEM.match(line)) and open_list is not None:
            open_list.append(_value(item[1] or item[2]))
        elif entry := _ENTRY.match(line):
            open_list = [] if not entry[2].strip() else None
            metadata[entry[1]] = open_list if open_list is not None else _value(entry[2])
        else:
            return {}, 0
    return {}, 0


def read_sidecar(content: bytes) -> dict[str, JsonValue]:
    """Parse a metadata file: a JSON object of strings, numbers, booleans and lists of these.

    Raises:
        ServiceError: if it is in another format.
    """
    try:
        value: Any = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise ServiceError(f"its {SIDECAR} is not JSON") from None
    if not isinstance(value, dict):
        raise ServiceError(f"its {SIDECAR} is not a JSON object")
    fields = cast("dict[str, Any]", value)
    for key, entry in fields.items():
        for item in cast("list[Any]", entry) if isinstance(entry, list) else [entry]:
            if not isinstance(item, str | int | float | None):
                raise ServiceError(
                    f"the value of {key!r} in its {SIDECAR} is not a string, number, boolean or list of these"
                )
    # Python's JSON allows lone surrogates and NaN, which cannot be stored.
    metadata = cast("dict[str, JsonValue]", to_json(fields))
    return {key: entry for key, entry in metadata.items() if entry is not None}


def _value(text: str) -> JsonValue:
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        return [_scalar(item.strip()) for item in text[1:-1].split(",") if item.strip()]
    return _scalar(text)


def _scalar(text: str) -> JsonValue:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    if text.lower() in _CONSTANTS:
        return _CONSTANTS[text.lower()]
    if _NUMBER.match(text):
        return float(text) if "." in text else int(text)
    return text
