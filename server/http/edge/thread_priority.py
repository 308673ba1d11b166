"""The priority of the threads that work for the event loop: below that of the event loop itself."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from ragflow_lg.base.computing_threads import lower_own_priority


def lower_threads(loop: asyncio.AbstractEventLoop) -> None:
    """Run the work that an event loop gives to threads in threads of a lower priority.

    Such a thread computes while the processor is free, so that others notice little of a tenant's large values.
    """
    loop.set_default_executor(ThreadPoolExecutor(thread_name_prefix="asyncio", initializer=lower_own_priority))
