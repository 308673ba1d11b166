"""The size and time budget for rendering a Jinja template."""

from __future__ import annotations

import time
from contextvars import ContextVar
from typing import TypeVar, cast

from ragflow_lg.base.errors import ComponentError

MAX_OUTPUT_CHARS = 2_000_000
MAX_SIZE = 10_000_000
"""Maximum number of characters and entries that rendering one template may create, including discarded ones."""
MAX_RANGE = 10_000
MAX_SECONDS = 2.0

T = TypeVar("T")


class Budget:
    """The remaining size and time for rendering one template."""

    def __init__(self) -> None:
        self._left = MAX_SIZE
        self._deadline = time.monotonic() + MAX_SECONDS

    def charge(self, value: object) -> None:
        """Subtract a value's size: its characters and entries, counting repeated ones each time.

        Raises:
            ComponentError: if the size or the time is used up.
        """
        pending = [value]
        while pending:
            current = pending.pop()
            self._left -= 1
            if isinstance(current, str):
                self._left -= len(current)
            elif isinstance(current, int):
                self._left -= current.bit_length() >> 3
            elif isinstance(current, list | tuple):
                pending.extend(cast("list[object]", current))
            elif isinstance(current, dict):
                for pair in cast("dict[object, object]", current).items():
                    pending.extend(pair)
            if self._left < len(pending):
                raise ComponentError(f"The template creates more than {MAX_SIZE:,} characters and entries.")
        if time.monotonic() > self._deadline:
            raise ComponentError(f"The template did not finish within {MAX_SECONDS:g} s and was stopped.")


_budget: ContextVar[Budget] = ContextVar("template_budget")


def start_budget() -> None:
    """Start a new budget for the template being rendered in this thread."""
    _budget.set(Budget())


def charge(value: T) -> T:
    """Charge a value to this thread's budget, and return the value."""
    _budget.get().charge(value)
    return value
