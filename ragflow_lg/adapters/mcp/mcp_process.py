"""MCP over the standard streams of a process that is started here, and that ends with us, whatever happens.

The process leads a group of its own. When it has to go it is asked to by the end of its input, then by SIGTERM, then
the whole group is killed. A tiny second process does the last should we die ourselves, by SIGKILL too: it reads from
a pipe that ends with us.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCMessage
from pydantic import ValidationError

__all__ = ["McpProcessSettings", "Streams", "process_streams"]

logger = logging.getLogger(__name__)

Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]

PATIENCE_S = 0.75
"""How long the process has for each polite way to end."""

_INHERITED = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER")
_WATCH = "import os,sys\nif not os.read(0,1): os.killpg(int(sys.argv[1]),9)"
_MAX_LOGGED_LINE = 2000
_LAST_LINES = 5
"""How much of what a process wrote is shown when it has ended by itself."""


@dataclass(frozen=True, slots=True)
class McpProcessSettings:
    """What is started: no shell is in between. Of our environment the process gets only what a program needs."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    max_bytes: int = 4 * 1024 * 1024
    """Of one message."""

    @property
    def environment(self) -> dict[str, str]:
        """Give the whole environment of the process."""
        return {name: os.environ[name] for name in _INHERITED if name in os.environ} | dict(self.env)


@asynccontextmanager
async def process_streams(
    settings: McpProcessSettings, name: str, lost: Callable[[str], None]
) -> AsyncGenerator[tuple[Streams, int]]:
    """Start the process; give its streams and its group. ``lost`` is told when it can be used no more.

    Raises:
        OSError: if it cannot be started.
    """
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.subprocess_exec(
        lambda: SubprocessStreamProtocol(settings.max_bytes, loop),
        settings.command,
        *settings.args,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        env=settings.environment,
        start_new_session=True,
    )
    process = Process(transport, protocol, loop)
    given, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, taken = anyio.create_memory_object_stream[SessionMessage](0)
    words: deque[str] = deque(maxlen=_LAST_LINES)
    logged = asyncio.create_task(_log(process, name, words))

    async def ended(why: str) -> None:
        await asyncio.wait([logged], timeout=PATIENCE_S)
        for line in words:
            logger.warning("MCP server %s: %s", name, line)
        lost(why)

    pipes = (
        asyncio.create_task(_read(process, name, given, lost, ended, settings.max_bytes)),
        asyncio.create_task(_write(process, taken)),
        logged,
    )
    try:
        with _watched(process.pid):
            try:
                yield (read, write), process.pid
            finally:
                for pipe in pipes[:2]:
                    pipe.cancel()
                await _end(process)
    finally:
        for pipe in pipes:
            pipe.cancel()
        await asyncio.wait(pipes)
        transport.close()
        for stream in (given, read, write, taken):
            stream.close()


async def _read(
    process: Process,
    name: str,
    given: MemoryObjectSendStream[SessionMessage | Exception],
    lost: Callable[[str], None],
    ended: Callable[[str], Awaitable[None]],
    limit: int,
) -> None:
    assert process.stdout is not None
    has_complained = False
    while True:
        try:
            line = await process.stdout.readline()
        except ValueError:
            lost(f"The answer is larger than the limit of {limit:,} bytes (max_result_bytes).")
            break
        if not line:
            await ended(await _how_it_ended(process))
            break
        try:
            message = JSONRPCMessage.model_validate_json(line)
        except ValidationError:
            if line.strip() and not has_complained:
                logger.warning("MCP server %s writes to its output what is no message: %r", name, line[:80])
                has_complained = True
            continue
        try:
            await given.send(SessionMessage(message))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            break
    given.close()


async def _how_it_ended(process: Process) -> str:
    try:
        async with asyncio.timeout(PATIENCE_S):
            code = await process.wait()
    except TimeoutError:
        return "The server has closed its output."
    by = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
    return f"The server's process has ended {by}; the log has what it wrote."


async def _write(process: Process, taken: MemoryObjectReceiveStream[SessionMessage]) -> None:
    assert process.stdin is not None
    async for sent in taken:
        text = sent.message.model_dump_json(by_alias=True, exclude_none=True)
        with suppress(BrokenPipeError, ConnectionResetError):
            process.stdin.write(text.encode("utf-8", "replace") + b"\n")
            await process.stdin.drain()


async def _log(process: Process, name: str, words: deque[str]) -> None:
    """Hand what the process writes to its standard error to the log, line by line; keep the last lines."""
    assert process.stderr is not None
    while True:
        try:
            line = await process.stderr.readline()
        except ValueError:
            continue
        if not line:
            return
        words.append(line[:_MAX_LOGGED_LINE].decode("utf-8", "replace").rstrip())
        logger.info("MCP server %s: %s", name, words[-1])


async def _end(process: Process) -> None:
    """End the process and all of its group. A cancel in between kills at once."""
    assert process.stdin is not None
    try:
        process.stdin.close()
        if not await _ended(process):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            await _ended(process)
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


async def _ended(process: Process) -> bool:
    try:
        async with asyncio.timeout(PATIENCE_S):
            await process.wait()
    except TimeoutError:
        return False
    return True


@contextmanager
def _watched(group: int) -> Generator[None]:
    """Have the group killed should this process die meanwhile."""
    if not sys.executable:
        yield
        return
    command: Sequence[str] = (sys.executable, "-I", "-S", "-c", _WATCH, str(group))
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as watch:
        try:
            yield
        finally:
            assert watch.stdin is not None
            with suppress(BrokenPipeError):
                watch.stdin.write(b"x")
                watch.stdin.flush()
