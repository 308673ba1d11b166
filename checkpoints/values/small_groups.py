"""Encoding small entries of lists and maps in groups, because a call for each entry takes most of the time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import orjson

from ragflow_lg.base.long_list import BLOCK

OPTIONS = (
    orjson.OPT_PASSTHROUGH_SUBCLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_NON_STR_KEYS
)
MAX_SKIPPED = 64
MAX_SMALL_MAP, MAX_SMALL_DEPTH = 16, 6
"""Values that are wider or deeper are encoded part by part."""

_SCALARS = frozenset((int, float, bool))

_T = TypeVar("_T")


def encode_groups(
    entries: Sequence[_T], size: int, max_bytes: int, whole: Callable[[Sequence[_T]], Any], one: Callable[[_T], bytes]
) -> list[bytes]:
    """Return the texts of full groups of ``size`` entries.

    A group whose text has less than ``max_bytes`` is encoded as a list or map, which ``whole`` makes of it. Entries of
    larger groups, and those that orjson refuses, are encoded by ``one``. Such groups are usually followed by others, so
    that the next ones are not tried: more of them each time.
    """
    texts: list[bytes] = []
    skip = skipped = 0
    for start in range(0, len(entries) - len(entries) % size, size):
        group = entries[start : start + size]
        text = b""
        if skipped < skip:
            skipped += 1
        else:
            text, skipped = dump_small(whole(group), max_bytes), 0
            skip = 0 if text else min(2 * skip + 1, MAX_SKIPPED)
        texts.append(text or b",".join(map(one, group)))
    return texts


def map_of_texts(pairs: Sequence[tuple[Any, Any]]) -> dict[str, Any] | None:
    """Return the map with these entries, or None if a key is not a text."""
    return dict(pairs) if all(type(key) is str for key, _ in pairs) else None


def dump_small(value: Any, max_bytes: int) -> bytes:
    """Return the text inside the brackets; ``b""`` if it is too long or cannot be encoded, and for None."""
    if value is None:
        return b""
    try:
        text = orjson.dumps(value, option=OPTIONS)[1:-1]
    except (TypeError, ValueError, RecursionError):
        return b""
    return text if len(text) < max_bytes else b""


def encode_small(value: Any, max_bytes: int) -> bytes:
    """Return the text of a value that is obviously small and plain, else ``b""``.

    Most values of a turn are, and encoding them part by part takes four times as long.
    """
    if _find_size(value, MAX_SMALL_DEPTH, max_bytes) >= max_bytes:
        return b""
    try:
        text = orjson.dumps(value, option=OPTIONS)
    except (TypeError, ValueError):
        return b""
    return text if len(text) < max_bytes else b""


def _find_size(value: Any, depth: int, limit: int) -> int:
    """Return about how long the text of a value is, or ``limit`` if it is longer, deeper or of another type."""
    kind = type(value)  # pyright: ignore[reportUnknownVariableType] - of any value
    if kind is str:
        return len(value) + 3
    size = 2
    if kind is dict:
        if not depth or len(value) >= MAX_SMALL_MAP:
            return limit
        for key in value:
            if type(key) is not str:
                return limit
            size += len(key) + 3
        value = value.values()
    elif kind is list or kind is tuple:
        if not depth or len(value) >= BLOCK:  # long lists have a form of their own
            return limit
    else:
        return 8 if value is None or kind in _SCALARS else limit
    for part in value:
        kind = type(part)  # pyright: ignore[reportUnknownVariableType] - of any value
        if kind is str:  # most parts are: a call for each would take most of the time
            size += len(part) + 3
        elif part is None or kind in _SCALARS:
            size += 8
        else:
            size += _find_size(part, depth - 1, limit)
        if size >= limit:
            return limit
    return size
