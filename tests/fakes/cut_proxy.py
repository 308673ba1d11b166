"""A TCP proxy whose connections can be cut and restored."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit


class CutProxy:
    """The proxy. While it is cut, it refuses connections; replies in transit may be lost."""

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        self._to = (place.hostname or "", place.port or 6379)
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_cut = False
        self.drops_next_reply = False
        """Whether to drop the next reply of the server and close its connection."""
        self.pause_s = 0.0
        """How long it waits after each event of a stream."""
        self.url = ""

    def cut(self) -> None:
        self.is_cut = True
        for writer in self._writers:
            writer.transport.abort()

    def restore(self) -> None:
        self.is_cut = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_cut:
            writer.transport.abort()
            return
        there, back = await asyncio.open_connection(*self._to)
        self._writers |= {writer, back}
        for source, target, is_answer in ((reader, back, False), (there, writer, True)):
            task = asyncio.create_task(self._forward(source, target, is_answer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _forward(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, is_answer: bool) -> None:
        with suppress(OSError):
            while data := await source.read(65536):
                if is_answer and self.drops_next_reply:
                    self.drops_next_reply = False
                    break
                for piece in data.splitlines(keepends=True) if is_answer and self.pause_s else [data]:
                    target.write(piece)
                    await target.drain()
                    if self.pause_s and piece.startswith(b"data:"):
                        await asyncio.sleep(self.pause_s)
        target.transport.abort()


@asynccontextmanager
async def cut_proxy(url: str) -> AsyncGenerator[CutProxy]:
    """Serve a proxy for the server at ``url`` on a free port."""
    proxy = CutProxy(url)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    proxy.url = f"{urlsplit(url).scheme}://{host}:{port}"
    yield proxy
    proxy.cut()
    server.close()
