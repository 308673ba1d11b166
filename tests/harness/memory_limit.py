"""A limit of memory for a process."""

import resource
import sys

LIMIT_BYTES = 1024**3


def limit_memory(pid: int = 0, limit: int = LIMIT_BYTES) -> None:
    """Limit the memory that a process, by default this one, can write to; Linux only.

    RLIMIT_DATA counts private memory that can be written, as RLIMIT_AS does not: that also counts the addresses that
    each thread reserves.
    """
    if sys.platform == "linux":
        resource.prlimit(pid, resource.RLIMIT_DATA, (limit, limit))
