"""The priority of the threads that compute for the event loop: below that of the event loop itself."""

from __future__ import annotations

import asyncio
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

PRIORITY = 10
"""How much lower the priority of a thread is than that of the event loop, as for the command ``nice``."""


def lower_threads(loop: asyncio.AbstractEventLoop) -> None:
    """Run long work of an event loop, such as encoding large values, in threads of a lower priority.

    Such a thread computes while the processor is free, so that others notice little of a tenant's large values.
    """
    loop.set_default_executor(ThreadPoolExecutor(thread_name_prefix="asyncio", initializer=_lower_own_priority))


def _lower_own_priority() -> None:
    """Lower the priority of the thread that calls this. Only Linux has priorities of threads."""
    if sys.platform != "linux":
        return
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, min(os.getpriority(os.PRIO_PROCESS, 0) + PRIORITY, 19))
