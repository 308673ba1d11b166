"""Measures the memory and the files of a sandboxed program: the kernel limits those of one process, not of all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ragflow_lg.adapters.code.code_settings import CodeLimits, LimitName

MAX_MEASURED = 1_000
"""How many processes are measured at most. The limit on processes ends a program with more."""


async def find_excess(pid: int, limits: CodeLimits, scratch: str) -> LimitName | None:
    """Return the limit that the processes below ``pid`` exceed, if any.

    ``scratch`` is the folder inside the sandbox whose file system contains all files of the program.
    """
    pids = list(list_descendants(pid))
    if sum(map(read_memory_bytes, pids)) > limits.memory_bytes:
        return "memory_bytes"
    if pids and _count_files(pids[-1], scratch, limits.scratch_bytes) > limits.files:
        return "files"
    return None


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


def _count_files(pid: int, scratch: str, size: int) -> int:
    """Return the number of files in the file system of a folder inside the sandbox; 0 if that is unknown.

    While the sandbox is being set up, the same path leads to the host's folder. The file system has another size there.
    """
    with suppress(OSError):
        usage = os.statvfs(f"/proc/{pid}/root{scratch}")
        if 0 <= usage.f_blocks * usage.f_frsize - size < usage.f_frsize:
            return usage.f_files - usage.f_ffree
    return 0
