"""Lists that grow, and the mark by which an edit puts another list in their place.

LangGraph's own mark for that is an object, which a saver would have to revive.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

__all__ = ["replaced", "replacing"]

_REPLACE = "__replace__"


def replacing(entries: list[Any]) -> dict[str, Any]:
    """Make an update of a growing list that replaces all of it.

    >>> replaced(replacing([1]))
    [1]
    """
    return {_REPLACE: entries}


def replaced(update: Any) -> list[Any] | None:
    """Give the new list if an update replaces all of it, else None."""
    if not isinstance(update, Mapping) or _REPLACE not in update:
        return None
    return list(cast("Mapping[str, list[Any]]", update)[_REPLACE])
