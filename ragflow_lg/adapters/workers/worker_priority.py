"""The priority of worker processes: below that of their parent, and the lowest for a task that takes long."""

from __future__ import annotations

import math
import os
import sys
from contextlib import suppress

PRIORITY = 10
"""How much lower the priority of a worker is than that of its parent, as for the command ``nice``."""
LOWEST = 19


def lower_priority(pid: int) -> None:
    """Set the priority of a process that has just been started. Windows has none."""
    if sys.platform == "win32":
        return
    with suppress(OSError):  # it has ended
        os.setpriority(os.PRIO_PROCESS, pid, min(os.getpriority(os.PRIO_PROCESS, 0) + PRIORITY, LOWEST))


def make_idle(pid: int) -> None:
    """Run a process only while no other needs the processor. Undoing this takes privileges.

    Linux counts a processor that runs nothing else as free, so that others do not even wait for the process to stop.
    """
    if sys.platform == "win32":
        return
    with suppress(OSError):
        if sys.platform == "linux":
            os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
        else:
            os.setpriority(os.PRIO_PROCESS, pid, LOWEST)


def read_processor_s(pid: int) -> float:
    """Return the processor time of a process in seconds; infinity on systems that do not report it."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return math.inf
