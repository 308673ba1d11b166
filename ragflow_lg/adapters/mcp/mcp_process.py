"""MCP over a child process's standard streams. The child process always ends together with this process.

The child leads its own process group. To end it, its input is closed, then the group is sent SIGTERM and finally
SIGKILL. If this process itself dies, even by SIGKILL, a tiny watchdog process kills the group: it reads from a pipe
that closes when this process ends.
"""

from __future__ import annotations

import asyncio
import errno
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

logger = logging.getLogger(__name__)

Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]

GRACE_S = 0.75
"""Time limit for each step in ending the process."""

_INHERITED = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER")
_WATCHDOG = "import os,sys\nif not os.read(0,1): os.killpg(int(sys.argv[1]),9)"
_MAX_LOGGED_LINE = 2000
_LAST_LINES = 5
"""Number of stderr lines logged as warnings after the process has ended unexpectedly."""


@dataclass(frozen=True, slots=True)
class McpProcessSettings:
    """The command of a server, started without a shell and with a minimal environment."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    max_bytes: int = 4 * 1024 * 1024
    """Maximum size of one message."""

    @property
    def environment(self) -> dict[str, str]:
        """All of the process's environment variables."""
        return {name: os.environ[name] for name in _INHERITED if name in os.environ} | dict(self.env)


@asynccontextmanager
async def open_process(
    settings: McpProcessSettings, name: str, on_lost: Callable[[str], None]
) -> AsyncGenerator[tuple[Streams, int]]:
    """Start the process and yield its message streams and its process group; end the group on exit.

    ``on_lost`` is called with the reason when the process can no longer be used.

    Raises:
        OSError: if the process cannot be started.
    """
    if not hasattr(os, "killpg"):
        raise OSError(errno.ENOSYS, "this needs Linux or macOS; on Windows, use WSL or a server with a url")
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
    incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    last_lines: deque[str] = deque(maxlen=_LAST_LINES)
    log_task = asyncio.create_task(_log_stderr(process, name, last_lines))

    async def on_exit(reason: str) -> None:
        await asyncio.wait([log_task], timeout=GRACE_S)
        for line in last_lines:
            logger.warning("MCP server %s: %s", name, line)
        on_lost(reason)

    tasks = (
        asyncio.create_task(_read(process, name, incoming, on_lost, on_exit, settings.max_bytes)),
        asyncio.create_task(_write(process, outgoing)),
        log_task,
    )
    try:
        with _watchdog(process.pid):
            try:
                yield (read, write), process.pid
            finally:
                for task in tasks[:2]:
                    task.cancel()
                await _end(process)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        transport.close()
        for stream in (incoming, read, write, outgoing):
            stream.close()


async def _read(
    process: Process,
    name: str,
    incoming: MemoryObjectSendStream[SessionMessage | Exception],
    on_lost: Callable[[str], None],
    on_exit: Callable[[str], Awaitable[None]],
    limit: int,
) -> None:
    assert process.stdout is not None
    has_warned = False
    while True:
        try:
            line = await process.stdout.readline()
        except ValueError:
            on_lost(f"The result is larger than the limit of {limit:,} bytes (max_result_bytes).")
            break
        if not line:
            await on_exit(await _exit_reason(process))
            break
        line = line.lstrip()
        line = line if line.startswith(b"{") else line[:80]  # the rest is no message
        try:
            message = JSONRPCMessage.model_validate_json(line)
        except ValidationError:
            if line.strip() and not has_warned:
                logger.warning("MCP server %s wrote a line to stdout that is not a message: %r", name, line[:80])
                has_warned = True
            continue
        try:
            await incoming.send(SessionMessage(message))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            break
    incoming.close()


async def _exit_reason(process: Process) -> str:
    try:
        async with asyncio.timeout(GRACE_S):
            code = await process.wait()
    except TimeoutError:
        return "The server closed its output."
    by = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
    return f"The server process ended {by}; see the log for its output."


async def _write(process: Process, outgoing: MemoryObjectReceiveStream[SessionMessage]) -> None:
    assert process.stdin is not None
    async for item in outgoing:
        text = item.message.model_dump_json(by_alias=True, exclude_none=True)
        with suppress(BrokenPipeError, ConnectionResetError):
            process.stdin.write(text.encode("utf-8", "replace") + b"\n")
            await process.stdin.drain()


async def _log_stderr(process: Process, name: str, last_lines: deque[str]) -> None:
    """Log the standard error of the process line by line, and store the last lines."""
    assert process.stderr is not None
    while True:
        try:
            line = await process.stderr.readline()
        except ValueError:
            continue
        if not line:
            return
        last_lines.append(line[:_MAX_LOGGED_LINE].decode("utf-8", "replace").rstrip())
        logger.info("MCP server %s: %s", name, last_lines[-1])


async def _end(process: Process) -> None:
    """End the process and its group. If cancelled meanwhile, kill them immediately."""
    assert process.stdin is not None
    try:
        process.stdin.close()
        if not await _wait_for_exit(process):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            await _wait_for_exit(process)
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


async def _wait_for_exit(process: Process) -> bool:
    """Wait for the process; return False if it does not exit in time."""
    try:
        async with asyncio.timeout(GRACE_S):
            await process.wait()
    except TimeoutError:
        return False
    return True


@contextmanager
def _watchdog(group: int) -> Generator[None]:
    """Kill the process group if this process dies inside the context."""
    if not sys.executable:
        yield
        return
    command: Sequence[str] = (sys.executable, "-I", "-S", "-c", _WATCHDOG, str(group))
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as watchdog:
        try:
            yield
        finally:
            assert watchdog.stdin is not None
            with suppress(BrokenPipeError):
                watchdog.stdin.write(b"x")
                watchdog.stdin.flush()
