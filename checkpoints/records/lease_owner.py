"""The process that runs a session, identified so that other processes can tell whether it is alive."""

from __future__ import annotations

import os
import socket
import sys
from functools import cache
from pathlib import Path

from msgspec import Struct

_HIDDEN_START = "running"
"""Start time used for a process that exists but whose start time cannot be read."""


class Owner(Struct, frozen=True):
    """A process. ``machine`` also distinguishes containers that have their own process ids."""

    machine: str
    pid: int
    start_time: str

    def __str__(self) -> str:
        return f"{self.machine}|{self.pid}|{self.start_time}"

    @property
    def label(self) -> str:
        """A readable description of the process."""
        return f"process {self.pid} on {self.machine.partition('/')[0]}"

    @property
    def is_dead(self) -> bool:
        """Whether the process ran on this machine and has ended. Always False for other machines."""
        return self.machine == _machine() and _start_time(self.pid) not in (self.start_time, _HIDDEN_START)


def this_process() -> Owner:
    """Return this process as an owner."""
    return _process(os.getpid())  # differs after a fork


@cache
def _process(pid: int) -> Owner:
    return Owner(_machine(), pid, _start_time(pid))


def parse_owner(text: str) -> Owner | None:
    """Parse an owner; return None if the text is invalid."""
    machine, _, rest = text.rpartition("|")[0].rpartition("|")
    start_time = text.rpartition("|")[2]
    return Owner(machine, int(rest), start_time) if machine and rest.isascii() and rest.isdigit() else None


def _machine() -> str:
    parts = [socket.gethostname()]
    for path in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid"):
        try:
            parts.append(os.readlink(path) if path.endswith("pid") else Path(path).read_text().strip())
        except OSError:
            continue
    return "/".join(parts)


def _start_time(pid: int) -> str:
    """Return the start time of a process, or ``""`` if it has ended.

    The start time distinguishes the process from a later one with the same id.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return _HIDDEN_START if _exists(pid) else ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] == "Z" else fields[19]


def _exists(pid: int) -> bool:
    """Check whether a process exists, where /proc is missing or hides it.

    On Windows, `os.kill` would end the process instead: every process is taken for alive there, so that the lease of a
    dead one has to expire.
    """
    if sys.platform == "win32":
        return True
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True
