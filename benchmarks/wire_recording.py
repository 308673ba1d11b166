"""What clients and a store send each other, recorded by a proxy between them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count
from urllib.parse import urlsplit

from msgspec import Struct

_PART_BYTES = 1 << 16


class Trip(Struct):
    """What a client sends before it waits, and the answer."""

    connection: int
    asked: int
    """The place of the request among all requests and answers."""
    request: bytes = b""
    answered: int = 0
    reply: bytes = b""


class Recorder:
    """Proxies for stores. Trips are recorded by the name of their store, in the order of their answers."""

    def __init__(self) -> None:
        self.sent: list[bytearray] = []
        """What each connection has sent since it was opened."""
        self._trips: dict[str, list[Trip]] = {}
        self._places = count()

    @asynccontextmanager
    async def between(self, name: str, url: str) -> AsyncGenerator[str]:
        """Yield the URL of a proxy for a store."""
        parts = urlsplit(url)
        trips = self._trips[name] = list[Trip]()

        async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            answers, requests = await asyncio.open_connection(parts.hostname, parts.port)
            sent, trip = bytearray(), Trip(len(self.sent), next(self._places))
            self.sent.append(sent)

            def ask(data: bytes) -> None:
                nonlocal trip
                sent.extend(data)
                if trip.reply or not trip.request:
                    trip = Trip(trip.connection, next(self._places))
                trip.request += data

            def answer(data: bytes) -> None:
                if not trip.reply:
                    trip.answered = next(self._places)
                    trips.append(trip)
                trip.reply += data

            with suppress(asyncio.CancelledError):  # the event loop ends
                await asyncio.gather(_copy(reader, requests, ask), _copy(answers, writer, answer))

        server = await asyncio.start_server(connect, "127.0.0.1", 0)
        async with server:
            yield url.replace(f":{parts.port}", f":{server.sockets[0].getsockname()[1]}")

    def take(self) -> dict[str, list[Trip]]:
        """Return the trips since the last call, by store."""
        taken = {name: [*trips] for name, trips in self._trips.items()}
        for trips in self._trips.values():
            trips.clear()
        return taken


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, note: Callable[[bytes], None]) -> None:
    with suppress(OSError):
        while data := await reader.read(_PART_BYTES):
            note(data)
            writer.write(data)
            await writer.drain()
    writer.close()
