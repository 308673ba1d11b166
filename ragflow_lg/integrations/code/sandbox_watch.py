"""Measures the memory and the files of a sandboxed program: the kernel limits those of one process, not of all."""

from __future__ import annotations

import os
from contextlib import suppress

from ragflow_lg.base.process_memory import list_descendants, read_memory_bytes
from ragflow_lg.integrations.code.code_settings import CodeLimits, LimitName


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


def _count_files(pid: int, scratch: str, size: int) -> int:
    """Return the number of files in the file system of a folder inside the sandbox; 0 if that is unknown.

    While the sandbox is being set up, the same path leads to the host's folder. The file system has another size there.
    """
    with suppress(OSError):
        usage = os.statvfs(f"/proc/{pid}/root{scratch}")
        if 0 <= usage.f_blocks * usage.f_frsize - size < usage.f_frsize:
            return usage.f_files - usage.f_ffree
    return 0
