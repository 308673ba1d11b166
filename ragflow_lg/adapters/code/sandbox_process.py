"""One run of a sandboxed program, seen from the host: its input, what it prints and reports, and its end."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import PurePosixPath
from typing import Any, cast

from msgspec import Struct

from ragflow_lg.adapters.code.code_settings import CodeLimits, LimitName, exceeded
from ragflow_lg.base.errors import ComponentError, ServiceError
from ragflow_lg.base.values import JsonValue, to_json
from ragflow_lg.services.code import ARTIFACT_TYPES, Artifact, CodeResult

CHUNK_BYTES = 65_536
WATCH_S = 0.05
"""How often the memory and the files of a program are measured."""

Watch = Callable[[int, CodeLimits], Awaitable["LimitName | None"]]
"""Returns the limit that the processes below a process exceed, if any."""


class SandboxCommand(Struct, frozen=True):
    """A command that starts a program in a sandbox."""

    build: Callable[[int, int], Sequence[str]]
    """Returns the command, given the pipe for the report and the pipe that contains ``extra``."""
    environment: Mapping[str, str]
    extra: bytes = b""
    """What the second pipe contains, which must fit into a pipe."""
    reports_to_socket: bool = False
    """Whether the report goes to a socket instead of a pipe."""


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
        _kill(self.process)

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
            if limit := await measure(self.process.pid, self.limits):
                self.stop(limit)
                return
            await asyncio.sleep(WATCH_S)


class SandboxProcess:
    """A process that has been started in a sandbox, and waits for its request."""

    def __init__(self, process: asyncio.subprocess.Process, report: asyncio.StreamReader, close: Callable[[], None]):
        self._process = process
        self._report = report
        self._close = close

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.returncode is None

    async def read_report_line(self) -> bytes:
        """Return the next line of the report before the run; ``b""`` if the process has ended."""
        return await self._report.readline()

    async def stop(self) -> tuple[bytes, bytes]:
        """Kill a process that got no request. Return what it printed."""
        _kill(self._process)
        printed = await self._process.communicate()
        self._close()
        return printed

    async def run(self, request: bytes, limits: CodeLimits, watch: Watch) -> Ending:
        """Send the request, and wait until the process ends or exceeds a limit. Nothing that it started survives."""
        run = _Run(self._process, limits)
        watching = asyncio.create_task(run.watch(watch))
        work = asyncio.gather(
            run.feed(request),
            run.collect(run.process.stdout, run.stdout),
            run.collect(run.process.stderr, run.stderr),
            run.collect_report(self._report),
            run.process.wait(),
        )
        try:
            async with asyncio.timeout(limits.timeout_s):
                await asyncio.shield(work)
        except TimeoutError:
            run.stop("timeout_s")
        finally:
            watching.cancel()
            run.stop()
            await asyncio.shield(work)  # the streams end with the process
            self._close()
        code = run.process.returncode or 0
        return Ending(bytes(run.stdout), bytes(run.stderr), bytes(run.report), code, run.exceeded)


async def start_process(command: SandboxCommand) -> SandboxProcess:
    """Start a command.

    Raises:
        ServiceError: if it cannot be started.
    """
    read_report, write_report = _socket_pair() if command.reports_to_socket else os.pipe()
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
    with ExitStack() as unless_connected:
        unless_connected.callback(_kill, process)  # above all, if this task is cancelled
        reader = asyncio.StreamReader()
        pipe = os.fdopen(read_report, "rb", buffering=0)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        unless_connected.pop_all()
    return SandboxProcess(process, reader, transport.close)


async def execute(command: SandboxCommand, request: bytes, limits: CodeLimits, watch: Watch) -> Ending:
    """Start a command and run it until it ends or exceeds a limit. Nothing that it has started survives.

    Raises:
        ServiceError: if the command cannot be started.
    """
    process = await start_process(command)
    return await process.run(request, limits, watch)


def _socket_pair() -> tuple[int, int]:
    ours, theirs = socket.socketpair()
    return ours.detach(), theirs.detach()


def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill a process and everything in its group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(ProcessLookupError):
        process.kill()


MAX_NAME_CHARS = 255
_LIMITS = frozenset(CodeLimits.__struct_fields__)


def read_ending(ending: Ending, limits: CodeLimits) -> CodeResult:
    """Return the result of a run. A hostile program can write to the pipe of its report itself.

    Raises:
        CodeLimitError: if it exceeded a limit.
        ServiceError: if the report is not one.
    """
    if ending.exceeded:
        raise exceeded(limits, ending.exceeded)
    lines = [_parse_line(line) for line in ending.report.splitlines()]
    artifacts: list[Artifact] = []
    has_value, value = False, None
    for line in lines:
        if (name := line.get("exceeded")) in _LIMITS:
            raise exceeded(limits, cast("LimitName", name), str(line.get("detail", "")))
        if "artifact" in line:
            artifacts.append(_read_artifact(line, limits))
        elif "value" in line:
            has_value, value = True, _read_value(line["value"], limits)
    if len(artifacts) > limits.artifacts:
        raise exceeded(limits, "artifacts")
    stdout, stderr = ending.stdout.decode("utf-8", "replace"), ending.stderr.decode("utf-8", "replace")
    return CodeResult(stdout, stderr, ending.exit_code, has_value, value, tuple(artifacts))


def _parse_line(line: bytes) -> Mapping[str, Any]:
    with suppress(ValueError, RecursionError):
        value: Any = json.loads(line)
        if isinstance(value, dict):
            return cast("Mapping[str, Any]", value)
    raise ServiceError("The code has damaged the report of its result.")


def _read_value(text: Any, limits: CodeLimits) -> JsonValue:
    """Return the value of ``main``. NaN and infinity become null, as everywhere in a canvas.

    Raises:
        CodeLimitError: if it is too large.
        ServiceError: if it is not JSON, or has too many levels or entries.
    """
    if not isinstance(text, str):
        raise ServiceError("The code has damaged the report of its result.")
    if len(text.encode("utf-8", "replace")) > limits.result_bytes:
        raise exceeded(limits, "result_bytes")
    try:
        return to_json(json.loads(text))
    except ComponentError as error:
        raise ServiceError(f"The value that main returned cannot be used: {error}") from None
    except (ValueError, RecursionError):
        raise ServiceError("The value that main returned cannot be used: it is nested too deeply.") from None


def _read_artifact(line: Mapping[str, Any], limits: CodeLimits) -> Artifact:
    """Return an artifact whose name is a relative path without ``..``.

    Raises:
        CodeLimitError: if its type or its size is not permitted.
        ServiceError: if its name or its content is invalid.
    """
    name, content = line.get("artifact"), line.get("content")
    if not isinstance(name, str) or not isinstance(content, str):
        raise ServiceError("The code has damaged the report of its result.")
    path = PurePosixPath(name)
    is_safe = name.isprintable() and "\\" not in name and 0 < len(name) <= MAX_NAME_CHARS
    if not is_safe or path.is_absolute() or ".." in path.parts:
        raise ServiceError(f"The artifact {name[:80]!r} has a name that cannot be used.")
    extension = path.suffix.lower()
    if extension not in limits.artifact_types:
        raise exceeded(limits, "artifact_types", name)
    try:
        data = base64.b64decode(content, validate=True)
    except ValueError:
        raise ServiceError("The code has damaged the report of its result.") from None
    if len(data) > limits.artifact_bytes:
        raise exceeded(limits, "artifact_bytes", name)
    return Artifact(name, ARTIFACT_TYPES.get(extension, "application/octet-stream"), data)
