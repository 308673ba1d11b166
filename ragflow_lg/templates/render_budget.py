"""How much one rendering of a Jinja template may make, and how long it may take."""

from __future__ import annotations

import time
from contextvars import ContextVar
from typing import TypeVar, cast

from ragflow_lg.base.errors import ComponentError

__all__ = ["MAX_OUTPUT_CHARS", "MAX_RANGE", "MAX_SECONDS", "MAX_SIZE", "Budget", "charge", "start_budget"]

MAX_OUTPUT_CHARS = 2_000_000
MAX_SIZE = 10_000_000
"""Most characters and entries that one rendering may make, those it throws away included."""
MAX_RANGE = 10_000
MAX_SECONDS = 2.0

T = TypeVar("T")


class Budget:
    """What one rendering may still make, and how long it may go on."""

    def __init__(self) -> None:
        self._left = MAX_SIZE
        self._deadline = time.monotonic() + MAX_SECONDS

    def charge(self, value: object) -> None:
        """Take off the size of a value: its characters and entries, each counted as often as the value holds it.

        Raises:
            ComponentError: if nothing is left, or the time is over.
        """
        waiting = [value]
        while waiting:
            found = waiting.pop()
            self._left -= 1
            if isinstance(found, str):
                self._left -= len(found)
            elif isinstance(found, int):
                self._left -= found.bit_length() >> 3
            elif isinstance(found, list | tuple):
                waiting.extend(cast("list[object]", found))
            elif isinstance(found, dict):
                for pair in cast("dict[object, object]", found).items():
                    waiting.extend(pair)
            if self._left < len(waiting):
                raise ComponentError(f"The template makes more than {MAX_SIZE:,} characters and entries on its way.")
        if time.monotonic() > self._deadline:
            raise ComponentError(f"The template did not finish within {MAX_SECONDS:g} s and was stopped.")


_budget: ContextVar[Budget] = ContextVar("template_budget")


def start_budget() -> None:
    """Give the rendering that begins in this thread a budget of its own."""
    _budget.set(Budget())


def charge(value: T) -> T:
    """Charge a value to the rendering of this thread, and give it back."""
    _budget.get().charge(value)
    return value
