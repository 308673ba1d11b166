"""Values in a Message, shown as text or offered as downloads.

*Download info* is a map with ``doc_id``, ``filename`` and ``mime_type``, a list of such maps, or either as JSON text.
It is added to the Message's ``downloads`` and does not appear in the text unless it says so. Source: RAGFlow's
``agent/component/message.py``.
"""

from __future__ import annotations

import json
from typing import Any, cast

from ragflow_lg.base.values import JsonValue, to_text

_KEYS = frozenset({"doc_id", "filename", "mime_type"})
_PRINT_FLAG = "include_download_info_in_content"


def find_downloads(value: JsonValue) -> list[dict[str, JsonValue]]:
    """Return the download infos in a value, without the print flag; an empty list for other values."""
    return [{key: part for key, part in info.items() if key != _PRINT_FLAG} for info in _infos(value)]


def drop_duplicates(downloads: list[dict[str, JsonValue]]) -> list[dict[str, JsonValue]]:
    """Return the downloads without duplicates."""
    by_text: dict[str, dict[str, JsonValue]] = {}
    for info in downloads:
        by_text.setdefault(to_text(info), info)
    return list(by_text.values())


def message_text(value: JsonValue) -> str:
    """Return the text of a value in a Message."""
    infos = _infos(value)
    if not infos:
        return to_text(value)
    if not any(info.get(_PRINT_FLAG) for info in infos):
        return ""
    downloads = find_downloads(value)
    is_list = isinstance(json.loads(value) if isinstance(value, str) else value, list)
    return to_text(downloads if is_list else downloads[0])


def _infos(value: JsonValue) -> list[dict[str, JsonValue]]:
    if isinstance(value, str):
        if "doc_id" not in value or not value.lstrip().startswith(("{", "[")):
            return []
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return []
    infos = cast("list[Any]", value if isinstance(value, list) else [value])
    return infos if infos and all(isinstance(i, dict) and i.keys() >= _KEYS for i in infos) else []
