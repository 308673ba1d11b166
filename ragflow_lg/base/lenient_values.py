"""Lenient reading of values that may have any type, such as parsed JSON. One of another type counts as empty."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, cast


def as_map(value: Any) -> Mapping[str, Any]:
    """Return the value if it is a map, or else an empty map."""
    if type(value) is dict:  # a check against an abstract class is slow
        return cast("Mapping[str, Any]", value)
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def as_list(value: Any) -> list[Any]:
    """Return the value if it is a list, or else an empty list."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def as_items(value: Any) -> list[Any]:
    """Return the value if it is a list, or else a list that contains it."""
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def entries_of(value: Any) -> Iterable[Any]:
    """Return the entries of a list, or the values of a map; none for any other value."""
    if type(value) is list:
        return cast("list[Any]", value)
    if value is None or isinstance(value, str | int | float):  # a check against an abstract class is slow
        return ()
    return as_map(value).values() or as_list(value)


def is_deeper(value: Any, levels: int) -> bool:
    """Return whether lists and maps are nested more than a number of levels deep."""
    level = [value]
    for _ in range(levels):
        level = [entry for outer in level for entry in entries_of(outer)]
    return bool(level)


def as_text(value: Any) -> str:
    """Return the value if it is a string, or else an empty string."""
    return value if isinstance(value, str) else ""


def as_texts(value: Any) -> tuple[str, ...]:
    """Return the non-empty strings in a list without duplicates, or a single string as a tuple."""
    if isinstance(value, str):
        return (value,) if value else ()
    return tuple(dict.fromkeys(entry for entry in as_list(value) if isinstance(entry, str) and entry))


def map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return a value with every text in it changed, except the keys of maps."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: map_texts(entry, change) for key, entry in as_map(value).items()}
    return [map_texts(entry, change) for entry in as_list(value)] if isinstance(value, list) else value


def texts_in(value: Any) -> Iterator[str]:
    """Yield every text in a value in order, except the keys of maps."""
    pending = [value]
    while pending:
        entry = pending.pop()
        if isinstance(entry, str):
            yield entry
        else:
            pending += reversed(list(as_map(entry).values()) or as_list(entry))
