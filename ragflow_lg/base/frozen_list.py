"""Lists that do not change any more, so that a saver may store them once."""

from __future__ import annotations

from typing import Any

__all__ = ["FrozenList"]


class FrozenList(list[Any]):
    """A list that whoever made it will never change. JSON like any other list.

    ``digest`` is for the saver: the key under which it has stored the list, ``""`` before.
    """

    __slots__ = ("digest",)

    def __init__(self, entries: Any = ()) -> None:
        super().__init__(entries)
        self.digest = ""
