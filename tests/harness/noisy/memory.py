"""The memory of a process and of the processes that it has started."""

import os
from pathlib import Path

MB = 1024 * 1024
_PAGE = os.sysconf("SC_PAGE_SIZE")


def rss_mb(pid: int) -> float:
    """Return the resident memory of a process, or 0 if it has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE / MB
    except (OSError, IndexError):
        return 0.0


def family_mb(pid: int) -> float:
    """Return the resident memory of a process and all of its descendants."""
    pending, total = [pid], 0.0
    while pending:
        current = pending.pop()
        total += rss_mb(current)
        pending += _children(current)
    return total


def _children(pid: int) -> list[int]:
    children: list[int] = []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            children += [int(child) for child in (task / "children").read_text().split()]
    except OSError:
        pass
    return children
