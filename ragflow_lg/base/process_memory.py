"""Processes that a process has started, and their memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

MAX_MEASURED = 1_000
"""How many processes are measured at most. The limit on processes ends a program with more."""


def list_descendants(pid: int) -> Iterator[int]:
    """Yield the processes that a process has started, and those that they have started."""
    waiting, count = [pid], 0
    while waiting and count < MAX_MEASURED:
        with suppress(OSError, ValueError):
            for task in Path(f"/proc/{waiting.pop()}/task").iterdir():
                for child in (task / "children").read_text("ascii").split():
                    count += 1
                    waiting.append(int(child))
                    yield int(child)


def read_memory_bytes(pid: int) -> int:
    """Return the memory that a process has to itself; 0 if it has ended."""
    with suppress(OSError, ValueError, IndexError):
        pages = Path(f"/proc/{pid}/statm").read_text("ascii").split()
        return (int(pages[1]) - int(pages[2])) * os.sysconf("SC_PAGE_SIZE")
    return 0
