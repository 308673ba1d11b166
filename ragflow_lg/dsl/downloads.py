"""Values in a Message, shown as text or offered as downloads.

*Download info* is a map with ``doc_id``, ``filename`` and ``mime_type``, a list of such maps, or either as JSON text.
It is added to the Message's ``downloads`` and does not appear in the text unless it says so. Source: RAGFlow's
``agent/component/message.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

from ragflow_lg.base.values import JsonValue, parse_json, to_text

_KEYS = frozenset({"doc_id", "filename", "mime_type"})
_PRINT_FLAG = "include_download_info_in_content"


class ShownValue(NamedTuple):
    """A value as a Message shows it: its text, and its downloads without the print flag."""

    text: str
    downloads: list[dict[str, JsonValue]]


def show_value(value: JsonValue, parse: Callable[[str], JsonValue] = parse_json) -> ShownValue:
    """Return how a Message shows a value. ``parse`` parses JSON text."""
    content = value
    if isinstance(value, str) and "doc_id" in value and value.lstrip().startswith(("{", "[")):
        content = parse(value)
    infos = cast("list[Any]", content if isinstance(content, list) else [content])
    if not infos or not all(isinstance(info, dict) and info.keys() >= _KEYS for info in infos):
        return ShownValue(to_text(value), [])
    maps = cast("list[dict[str, JsonValue]]", infos)
    downloads = [{key: part for key, part in info.items() if key != _PRINT_FLAG} for info in maps]
    if not any(info.get(_PRINT_FLAG) for info in maps):
        return ShownValue("", downloads)
    return ShownValue(to_text(downloads if isinstance(content, list) else downloads[0]), downloads)


def drop_duplicates(downloads: list[dict[str, JsonValue]]) -> list[dict[str, JsonValue]]:
    """Return the downloads without duplicates."""
    by_text: dict[str, dict[str, JsonValue]] = {}
    for info in downloads:
        by_text.setdefault(to_text(info), info)
    return list(by_text.values())
