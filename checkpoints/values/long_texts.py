"""Computing with long texts in a thread, so that the sessions of others can proceed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ragflow_lg.base.computing_threads import compute_in_thread

LONG_BYTES = 256 * 1024
"""From this length on, starting a thread takes less time than others would have to wait."""


class LongTextError(Exception):
    """A text is so long that it must be computed in a thread."""


_T = TypeVar("_T")
_R = TypeVar("_R")


async def compute(function: Callable[[_T], _R], argument: _T, size: int) -> _R:
    """Call a function; in a thread if ``size``, the number of bytes it reads or writes, is large."""
    return function(argument) if size < LONG_BYTES else await compute_in_thread(function, argument)
