"""A connection reads no more before its reader has run."""

import asyncio
from typing import Any, cast

import anyio
import pytest

from ragflow_lg.base.request_notes import RequestNotes, find_tenant, use_notes
from ragflow_lg.server.http.edge.fair_loop import make_fair_loop, read_in_turn
from tests.server.http.edge.test_fair_loop import BASES

PIECE = b"x" * 65_536


async def _send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    for _ in range(500):
        writer.write(PIECE)
        await writer.drain()
    writer.close()


async def _keep_busy(steps: int) -> None:
    for _ in range(steps):
        until = asyncio.get_running_loop().time() + 0.001
        while asyncio.get_running_loop().time() < until:
            pass
        await asyncio.sleep(0)


async def _read_beside_busy_tasks() -> tuple[int, int]:
    """Return how much had arrived at most when the reader ran, and in total."""
    server = await asyncio.start_server(_send, "127.0.0.1", 0)
    most = total = 0

    async def read() -> None:
        nonlocal most, total
        async with await anyio.connect_tcp("127.0.0.1", server.sockets[0].getsockname()[1]) as stream:
            queue = cast("Any", stream)._protocol.read_queue
            async for piece in stream:
                total += len(piece)
                most = max(most, len(piece) + sum(map(len, queue)))

    with use_notes(RequestNotes(tenant="busy")):
        busy = [asyncio.create_task(_keep_busy(40)) for _ in range(50)]
        await asyncio.create_task(read())
    for task in busy:
        task.cancel()
    server.close()
    return most, total


@pytest.mark.parametrize("base", BASES)
def test_little_arrives_before_a_reader_has_its_turn(base: type[asyncio.AbstractEventLoop]) -> None:
    with asyncio.Runner(loop_factory=lambda: make_fair_loop(base, find_tenant)) as runner:
        most, total = runner.run(_read_beside_busy_tasks())
    assert total == 500 * len(PIECE)
    assert most <= 2 * 256 * 1024


def test_other_protocols_are_left_alone() -> None:
    assert read_in_turn(asyncio.Protocol) is asyncio.Protocol
