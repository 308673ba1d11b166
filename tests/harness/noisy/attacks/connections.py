"""Connections that are slow, idle, broken or many."""

import asyncio
import json
from collections.abc import Awaitable, Callable

from tests.harness.noisy.attack import CHAT, Attack, Attacker
from tests.harness.noisy.plain_canvases import ECHO, SLOW

OPEN = 400
"""How many connections one client of an attack keeps open."""
Opening = Callable[[Attacker], Awaitable[bytes]]


def _head(attacker: Attacker, method: str = "POST", path: str = CHAT, length: int = 0, more: str = "") -> bytes:
    key = f"Authorization: Bearer {attacker.target.key}\r\nContent-Type: application/json\r\n"
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\n{key}{more}Content-Length: {length}\r\n\r\n".encode()


def _hold(name: str, summary: str, sent: Callable[[Attacker], bytes], trickle: bytes = b"") -> Attack:
    """Return an attack that opens connections, sends the start of a request, and then ``trickle`` each second."""

    async def step(attacker: Attacker) -> None:
        writers: list[asyncio.StreamWriter] = []
        try:
            for _ in range(OPEN):
                _, writer = await attacker.connect()
                writers.append(writer)
                writer.write(sent(attacker))
                attacker.answers["opened"] += 1
            while not all(writer.is_closing() for writer in writers):
                await asyncio.sleep(1)
                for writer in writers:
                    if trickle and not writer.is_closing():
                        writer.write(trickle)
            attacker.answers["all closed"] += 1
        finally:
            for writer in writers:
                writer.close()

    return Attack(name, summary, step, at_once=2)


def _burst(name: str, summary: str, data: Callable[[Attacker], bytes], at_once: int = 8) -> Attack:
    """Return an attack that opens a connection, sends data, reads at most one response, and closes."""

    async def step(attacker: Attacker) -> None:
        reader, writer = await attacker.connect()
        try:
            writer.write(data(attacker))
            async with asyncio.timeout(15):
                line = await reader.readline()
            attacker.answers[line.decode("latin-1").strip()[9:12] or "closed"] += 1
        except TimeoutError:
            attacker.answers["no response"] += 1
        finally:
            writer.close()

    return Attack(name, summary, step, at_once=at_once)


async def _prepare_stream(attacker: Attacker) -> None:
    attacker.kept["agent"] = await attacker.agent(SLOW)
    attacker.kept["echo"] = await attacker.agent(ECHO)


def _turn(attacker: Attacker, agent: str, size: int = 2) -> bytes:
    body = json.dumps({"agent_id": attacker.kept[agent], "query": "x" * size, "stream": True}).encode()
    return _head(attacker, length=len(body)) + body


async def _never_read(attacker: Attacker) -> None:
    """Start turns with answers of 1 MB, and never read them."""
    writers: list[asyncio.StreamWriter] = []
    try:
        for _ in range(100):
            _, writer = await attacker.connect()  # the stream reads nothing beyond its limit
            writers.append(writer)
            writer.write(_turn(attacker, "echo", 1_000_000))
            attacker.answers["opened"] += 1
            await asyncio.sleep(0.05)
        await asyncio.sleep(60)
    finally:
        for writer in writers:
            writer.transport.abort()


async def _leave(attacker: Attacker) -> None:
    """Start a turn, and leave at once."""
    _, writer = await attacker.connect()
    writer.write(_turn(attacker, "echo"))
    await asyncio.sleep(0.01)
    writer.transport.abort()
    attacker.answers["left"] += 1


async def _leave_streams(attacker: Attacker) -> None:
    """Start an endless turn, read a little, and leave."""
    reader, writer = await attacker.connect()
    writer.write(_turn(attacker, "agent"))
    line = await reader.readline()
    attacker.answers[line.decode("latin-1").strip()[9:12] or "closed"] += 1
    writer.transport.abort()


async def _churn(attacker: Attacker) -> None:
    """Open and close a connection."""
    _, writer = await attacker.connect()
    writer.close()
    attacker.answers["closed"] += 1


def _chunks(attacker: Attacker) -> bytes:
    head = _head(attacker).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    return head + b"1\r\n \r\n" * 1_000_000 + b"0\r\n\r\n"


def _both_lengths(attacker: Attacker) -> bytes:
    return _head(attacker, length=4, more="Transfer-Encoding: chunked\r\n") + b"0\r\n\r\nGET /health HTTP/1.1\r\n\r\n"


def _headers(count: int, size: int) -> Callable[[Attacker], bytes]:
    def data(attacker: Attacker) -> bytes:
        return (
            b"GET /health HTTP/1.1\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"a" * size) for n in range(count)) + b"\r\n"
        )

    return data


def _pipeline(attacker: Attacker) -> bytes:
    return _head(attacker, "GET", "/api/v1/agents") * 2000


ATTACKS: list[Attack] = [
    _hold("idle", "connections that send nothing", lambda attacker: b""),
    _hold("half-heads", "headers that never end", lambda attacker: b"GET / HTTP/1.1\r\n", b"X-A: b\r\n"),
    _hold("half-bodies", "bodies that never end", lambda attacker: _head(attacker, length=10_000_000), b" "),
    _hold("kept-alive", "connections kept open after a request", lambda attacker: _head(attacker, "GET", "/health")),
    Attack("unread-streams", "streams of 1 MB that nobody reads", _never_read, _prepare_stream, at_once=4),
    Attack("left-turns", "turns whose clients leave at once", _leave, _prepare_stream, at_once=8, pause_s=0.02),
    Attack("left-streams", "endless turns whose clients leave", _leave_streams, _prepare_stream, pause_s=0.05),
    Attack("churn", "connections opened and closed", _churn, at_once=16),
    _burst("large-headers", "headers of 1 MB", _headers(1, 1_000_000)),
    _burst("many-headers", "100,000 headers", _headers(100_000, 1)),
    _burst("long-address", "an address of 1 MB", lambda attacker: b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\n\r\n"),
    _burst("small-chunks", "a body of a million chunks", _chunks, at_once=4),
    _burst("both-lengths", "two lengths of one body", _both_lengths),
    _burst("no-http", "data that is no HTTP", lambda attacker: bytes(range(256)) * 400),
    _burst("pipeline", "2,000 requests at once on a connection", _pipeline, at_once=4),
]
