import asyncio
import json
import re
from pathlib import Path
from urllib.parse import urlsplit

from ragflow_lg.server.streaming.memory_journal import MemoryJournal
from tests.fakes.services import Reply
from tests.server.http.app_server import MODEL, AppServer, start_app

EVENTS = 200
PADDING = "x" * 400


def numbers_in(text: bytes) -> list[int]:
    return [int(number) for number in re.findall(rb"\nid:[0-9a-f]+:(\d+)\n", text)]


async def read_slowly(server: AppServer, agent_id: str, run_id: str, opening: asyncio.Semaphore) -> list[int]:
    """Read all events of a run slowly, through a small buffer; return their numbers."""
    address = urlsplit(server.url)
    body = json.dumps({"agent_id": agent_id, "stream": True}).encode()
    reader, writer = await asyncio.open_connection(address.hostname, address.port, limit=1024)
    head = (
        f"POST /api/v1/agents/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        f"Authorization: Bearer {server.key}\r\nLast-Event-ID: {run_id}:0\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    frames: list[int] = []
    async with opening:
        writer.write(head.encode() + body)
        rest = await reader.read(1024)
    while data := await reader.read(16 * 1024):
        rest += data
        cut = max(rest.rfind(b"\nid:"), 0)  # the text after it may be incomplete
        frames += numbers_in(rest[:cut])
        rest = rest[cut:]
        await asyncio.sleep(0.005)
    writer.close()
    return frames + numbers_in(rest)


async def follow_slowly(folder: Path, readers: int) -> None:
    """Read one run with many clients; all receive every event, and the journal does not grow with their number."""
    chunks = [f"{number} {PADDING}" for number in range(EVENTS)]
    async with start_app(folder, [Reply(chunks=chunks)]) as server:
        agent_id = await server.agent(MODEL)
        frames = await server.stream(agent_id)
        run_id = frames[0]["message_id"]
        journal = server.app_state.run_manager.journal
        assert isinstance(journal, MemoryJournal)
        size = journal.bytes
        opening = asyncio.Semaphore(16)  # limits concurrent connects, which are not tested here
        answer = await asyncio.gather(*(read_slowly(server, agent_id, run_id, opening) for _ in range(readers)))
        assert [numbers == list(range(1, len(frames) + 1)) for numbers in answer] == [True] * readers
        assert journal.bytes == size < 8 * EVENTS * len(PADDING)
        assert len(server.model.requests) == 1


async def test_many_slow_readers_receive_every_event(tmp_path: Path) -> None:
    await follow_slowly(tmp_path, 30)
