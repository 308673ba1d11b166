"""One run of a sandboxed program, seen from the host: its input, what it prints and reports, and its end."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct

from ragflow_lg.adapters.code.code_limits import CodeLimits, LimitName
from ragflow_lg.base.errors import ServiceError

CHUNK_BYTES = 65_536
WATCH_S = 0.05
"""How often the memory and the files of a program are measured."""

Watch = Callable[[int, CodeLimits], "LimitName | None"]
"""Returns the limit that the processes below a process exceed, if any."""


class SandboxCommand(Struct, frozen=True):
    """A command that starts a program in a sandbox."""

    build: Callable[[int, int], Sequence[str]]
    """Returns the command, given the pipe for the report and the pipe that contains ``extra``."""
    environment: Mapping[str, str]
    extra: bytes = b""
    """What the second pipe contains, which must fit into a pipe."""


class Ending(Struct, frozen=True):
    """How a program has ended, and what it has sent."""

    stdout: bytes
    stderr: bytes
    report: bytes
    exit_code: int
    exceeded: LimitName | None = None
    """The limit because of which it was stopped."""


class _Run:
    """The state of a run: its process, what it has sent, and the first limit that it exceeds."""

    def __init__(self, process: asyncio.subprocess.Process, limits: CodeLimits) -> None:
        self.process = process
        self.limits = limits
        self.exceeded: LimitName | None = None
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.report = bytearray()

    def stop(self, limit: LimitName | None = None) -> None:
        """Kill everything that the run has started."""
        if self.process.returncode is not None:
            return
        self.exceeded = self.exceeded or limit
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        with suppress(ProcessLookupError):
            self.process.kill()

    async def feed(self, request: bytes) -> None:
        """Send the request."""
        stdin = self.process.stdin
        assert stdin is not None
        with suppress(ConnectionError):
            stdin.write(request)
            await stdin.drain()
            stdin.close()

    async def collect(self, stream: asyncio.StreamReader | None, into: bytearray) -> None:
        """Read what the program prints. It is stopped if it prints too much; the rest is read until it has ended."""
        assert stream is not None
        while chunk := await stream.read(CHUNK_BYTES):
            if len(self.stdout) + len(self.stderr) > self.limits.output_bytes:
                self.stop("output_bytes")
            else:
                into += chunk

    async def collect_report(self, stream: asyncio.StreamReader) -> None:
        """Read what the program reports. A hostile program can send anything."""
        limits = self.limits
        # Each byte of an artifact takes 4/3 characters; JSON escapes at most double the value, which is JSON already.
        most = 2 * limits.artifacts * limits.artifact_bytes + 6 * limits.result_bytes + CHUNK_BYTES
        while chunk := await stream.read(CHUNK_BYTES):
            if len(self.report) > most:
                self.stop("result_bytes")
            else:
                self.report += chunk

    async def watch(self, measure: Watch) -> None:
        """Stop the program when it exceeds a limit that the kernel does not enforce."""
        while True:
            await asyncio.sleep(WATCH_S)
            if limit := measure(self.process.pid, self.limits):
                self.stop(limit)
                return


async def execute(command: SandboxCommand, request: bytes, limits: CodeLimits, watch: Watch) -> Ending:
    """Run a command until it ends or exceeds a limit. Nothing that it has started survives.

    Raises:
        ServiceError: if the command cannot be started.
    """
    read_report, write_report = os.pipe()
    read_extra, write_extra = os.pipe()
    os.write(write_extra, command.extra)
    os.close(write_extra)
    try:
        process = await asyncio.create_subprocess_exec(
            *command.build(write_report, read_extra),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            pass_fds=(write_report, read_extra),
            env=dict(command.environment),
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        os.close(read_report)
        raise ServiceError(f"The sandbox cannot be started: {error.strerror}.") from error
    finally:
        os.close(write_report)
        os.close(read_extra)
    return await _follow(_Run(process, limits), request, read_report, watch)


async def _follow(run: _Run, request: bytes, read_report: int, watch: Watch) -> Ending:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    pipe = os.fdopen(read_report, "rb", buffering=0)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    watching = loop.create_task(run.watch(watch))
    work = asyncio.gather(
        run.feed(request),
        run.collect(run.process.stdout, run.stdout),
        run.collect(run.process.stderr, run.stderr),
        run.collect_report(reader),
        run.process.wait(),
    )
    try:
        async with asyncio.timeout(run.limits.timeout_s):
            await asyncio.shield(work)
    except TimeoutError:
        run.stop("timeout_s")
    finally:
        watching.cancel()
        run.stop()
        await asyncio.shield(work)  # the streams end with the process
        transport.close()
    code = run.process.returncode or 0
    return Ending(bytes(run.stdout), bytes(run.stderr), bytes(run.report), code, run.exceeded)
