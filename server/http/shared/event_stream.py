"""An answer that is a stream of events: with heartbeats, at the pace of its reader, over as soon as that has gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from starlette.responses import StreamingResponse

from ragflow_lg.server.streaming.sse import HEARTBEAT, SSE_HEADERS
from ragflow_lg.server.streaming.task_cancellation import end_task

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

__all__ = ["EventStream", "wait_for_disconnect"]

GATHER_S = 0.005
"""Frames that come within this time of the last ones sent go together: each trip to the socket costs more than most."""
MAX_GATHERED_BYTES = 16 * 1024
"""What may wait for the socket. No more is asked for until it has taken that."""


class EventStream(StreamingResponse):
    """Sends frames as they come; of a crowd of them some at once."""

    def __init__(self, frames: AsyncGenerator[bytes], heartbeat_s: float = 0.0) -> None:
        """``frames`` is closed at the end, at once; without one for ``heartbeat_s`` a comment is sent, for 0 never."""
        super().__init__(frames, headers=SSE_HEADERS)
        self._frames = frames
        self._heartbeat_s = heartbeat_s
        self._gathered = bytearray()
        self._has_news = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._socket = asyncio.Lock()
        self._sent = 0
        self._is_over = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send everything, until the frames are over or the client has gone."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        taking = asyncio.create_task(self._take())
        taking.add_done_callback(lambda _: self._has_news.set())
        sending = asyncio.create_task(self._send_all(send, taking))
        leaving = asyncio.create_task(wait_for_disconnect(receive))
        try:
            while not await self._has_ended(sending, leaving):
                await self._beat(send)
            if sending.done():
                sending.result()
        finally:
            for task in (sending, leaving, taking):
                await end_task(task)
            await self._frames.aclose()

    async def _has_ended(self, *tasks: asyncio.Task[None]) -> bool:
        """Wait for a task, or for a while in which nothing is sent."""
        while True:
            sent = self._sent
            patience_s = self._heartbeat_s or None
            done, _ = await asyncio.wait(tasks, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
            if done:
                return True
            if sent == self._sent and not self._socket.locked():
                return False

    async def _take(self) -> None:
        async for frame in self._frames:
            self._gathered += frame
            self._has_news.set()
            if len(self._gathered) >= MAX_GATHERED_BYTES:
                self._has_room.clear()
                await self._has_room.wait()

    async def _send_all(self, send: Send, taking: asyncio.Task[None]) -> None:
        loop = asyncio.get_running_loop()
        sent_at = 0.0
        while not taking.done() or self._gathered:
            await self._has_news.wait()
            early_s = sent_at + GATHER_S - loop.time()
            if early_s > 0 and len(self._gathered) < MAX_GATHERED_BYTES and not taking.done():
                await asyncio.sleep(early_s)
            self._has_news.clear()
            body = bytes(self._gathered)
            self._gathered.clear()
            self._has_room.set()
            if body:
                async with self._socket:
                    self._sent += 1
                    await send({"type": "http.response.body", "body": body, "more_body": True})
            sent_at = loop.time()
        taking.result()
        async with self._socket:
            self._is_over = True
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _beat(self, send: Send) -> None:
        async with self._socket:
            if not self._is_over:
                await send({"type": "http.response.body", "body": HEARTBEAT, "more_body": True})


async def wait_for_disconnect(receive: Receive) -> None:
    """Wait until the client has gone; its request has to have been read."""
    while (await receive())["type"] != "http.disconnect":
        pass
