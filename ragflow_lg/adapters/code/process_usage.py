"""Measures what the process of a sandbox uses since its program began: memory, processor time and threads."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ragflow_lg.adapters.code.code_limits import CodeLimits, LimitName
from ragflow_lg.adapters.code.sandbox_watch import read_memory_bytes


class Usage(NamedTuple):
    """What a process uses."""

    memory_bytes: int = 0
    cpu_s: float = 0.0
    threads: int = 0


class UsageWatch:
    """Compares what a process uses with what it used at first, which is the interpreter's share."""

    def __init__(self) -> None:
        self._first: Usage | None = None

    async def find_excess(self, pid: int, limits: CodeLimits) -> LimitName | None:
        """Return the limit that the program exceeds, if any."""
        usage = await read_usage(pid)
        if self._first is None:
            self._first = usage
            return None
        first = self._first
        if usage.memory_bytes - first.memory_bytes > limits.memory_bytes:
            return "memory_bytes"
        if usage.cpu_s - first.cpu_s > limits.cpu_s:
            return "cpu_s"
        return "processes" if usage.threads - first.threads > limits.processes else None


async def read_usage(pid: int) -> Usage:
    """Return what a process uses; nothing if it has ended."""
    return read_proc(pid) if sys.platform == "linux" else await read_ps(pid)


def read_proc(pid: int) -> Usage:
    """Return what Linux says of a process."""
    with suppress(OSError, ValueError, IndexError):
        # After the name in brackets, which can contain anything; the order is that of proc(5).
        fields = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
        cpu_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return Usage(read_memory_bytes(pid), cpu_s, int(fields[17]))
    return Usage()


async def read_ps(pid: int) -> Usage:
    """Return what ``ps`` says of a process; it does not count threads."""
    process = await asyncio.create_subprocess_exec(
        "ps", "-o", "rss=,time=", "-p", str(pid), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    output, _ = await process.communicate()
    memory, _, time = output.decode("ascii", "replace").strip().partition(" ")
    with suppress(ValueError):
        return Usage(int(memory) * 1024, _seconds(time.strip()))
    return Usage()


def _seconds(time: str) -> float:
    """Return the seconds in a time such as ``1:02.50`` or ``2-03:04:05``."""
    days, _, rest = time.rpartition("-")
    seconds = 0.0
    for part in rest.split(":"):
        seconds = 60 * seconds + float(part)
    return seconds + 86_400 * int(days or 0)
