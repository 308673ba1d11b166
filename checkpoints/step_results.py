"""The results of steps within a thread's nodes, which are stored beside the thread's blobs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from langchain_core.runnables import RunnableConfig

from ragflow_lg.checkpoints.saver_operations import thread_of
from ragflow_lg.checkpoints.thread_values import ThreadValues, WrittenBlobs


class StepResults:
    """The step results of one thread. Implements `ragflow_lg.services.sessions.Steps`."""

    def __init__(self, values: ThreadValues, config: RunnableConfig, settle: Callable[[], Awaitable[None]]) -> None:
        """``settle`` stores the steps of the run on which the results depend."""
        self._values = values
        self._settle = settle
        self._config = config
        self._thread = thread_of(config)

    async def put(self, key: str, value: Any) -> None:
        """Store a result. It is durable when this method returns.

        Raises:
            SessionBusyError: if another runner holds the session.
            CheckpointError: if the store fails.
        """

        def pack(blobs: WrittenBlobs) -> str:
            return self._values.encode("", [value], self._thread, blobs)

        async def put(packed: str) -> None:
            await self._values.blobs.put(self._thread, {key: packed.encode()})

        await self._settle()
        await self._values.write(self._config, pack, put)

    async def find(self, key: str) -> tuple[bool, Any]:
        """Return whether there is a result, and that result.

        Raises:
            CheckpointError: if the store fails or its data is damaged.
        """
        with self._values.errors.translate_read():
            blobs = await self._values.blobs.find(self._thread, [key])
            if key not in blobs:
                return False, None
            (value,) = await self._values.decode("", blobs[key].decode(), self._thread)
            return True, value
