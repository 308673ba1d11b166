"""Who runs a session: a process, named so that others can tell whether it still lives."""

from __future__ import annotations

import os
import socket
from functools import cache
from pathlib import Path

from msgspec import Struct

__all__ = ["Owner", "parse_owner", "this_process"]

_HIDDEN = "running"
"""In place of the start of a process that is there, but does not show it."""


class Owner(Struct, frozen=True):
    """A process. ``machine`` tells machines apart, and containers with process numbers of their own."""

    machine: str
    pid: int
    started: str

    def __str__(self) -> str:
        return f"{self.machine}|{self.pid}|{self.started}"

    @property
    def shown(self) -> str:
        """The process for people."""
        return f"process {self.pid} on {self.machine.partition('/')[0]}"

    @property
    def is_dead(self) -> bool:
        """Whether the process ran on this machine and is gone. Of other machines nothing is known."""
        return self.machine == _machine() and _started(self.pid) not in (self.started, _HIDDEN)


def this_process() -> Owner:
    """Give the owner that this process is."""
    return _process(os.getpid())  # a fork is another one


@cache
def _process(pid: int) -> Owner:
    return Owner(_machine(), pid, _started(pid))


def parse_owner(text: str) -> Owner | None:
    """Read an owner; None if the text is none."""
    machine, _, rest = text.rpartition("|")[0].rpartition("|")
    started = text.rpartition("|")[2]
    return Owner(machine, int(rest), started) if machine and rest.isascii() and rest.isdigit() else None


def _machine() -> str:
    parts = [socket.gethostname()]
    for path in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid"):
        try:
            parts.append(os.readlink(path) if path.endswith("pid") else Path(path).read_text().strip())
        except OSError:
            continue
    return "/".join(parts)


def _started(pid: int) -> str:
    """When a process began, so that another one of the same number is not taken for it; ``""`` if it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return _HIDDEN if _exists(pid) else ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] == "Z" else fields[19]


def _exists(pid: int) -> bool:
    """Where there is no /proc, or it hides what others run."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True
