"""A process that is started before a program needs it, because starting it takes long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress

from ragflow_lg.adapters.code.sandbox_process import SandboxCommand, SandboxProcess, start_process
from ragflow_lg.base.errors import RagflowLgError, ServiceError

START_S = 60.0
MAX_SHOWN_CHARS = 300


class Standby:
    """Starts processes that report one line when they are ready, and keeps at most one that nobody uses yet."""

    def __init__(self, command: Callable[[], SandboxCommand]) -> None:
        self._command = command
        self._next: asyncio.Task[SandboxProcess] | None = None
        self._is_closed = False
        self._creating = asyncio.Lock()

    def prepare(self) -> None:
        """Start the next process in the background, if there is none."""
        if self._next is None and not self._is_closed:
            self._next = asyncio.create_task(self._start(), name="start a sandbox")

    async def take(self) -> SandboxProcess:
        """Return a process that is ready. Each one is returned once.

        Raises:
            ServiceError: if it cannot be started.
        """
        waiting, self._next = self._next, None
        if waiting is not None:
            try:
                process = await waiting
            except RagflowLgError:
                return await self._start()
            if process.is_running:
                return process
            await process.stop()
        return await self._start()

    async def aclose(self) -> None:
        """End the process that nobody uses, and start no more."""
        self._is_closed = True
        waiting, self._next = self._next, None
        if waiting is None:
            return
        async with self._creating:  # cancelling asyncio while it creates a process can block forever
            waiting.cancel()
        (process,) = await asyncio.gather(waiting, return_exceptions=True)
        if isinstance(process, SandboxProcess):
            await process.stop()

    async def _start(self) -> SandboxProcess:
        async with self._creating:
            process = await start_process(self._command())
        is_ready = False
        async with AsyncExitStack() as unless_started:
            unless_started.push_async_callback(process.stop)
            with suppress(TimeoutError):
                async with asyncio.timeout(START_S):
                    is_ready = bool(await process.read_report_line())
            unless_started.pop_all()
        if not is_ready:
            _, printed = await process.stop()
            reason = printed.decode("utf-8", "replace").strip()[-MAX_SHOWN_CHARS:] or "it said nothing."
            raise ServiceError(f"The sandbox cannot be started: {reason}")
        return process
