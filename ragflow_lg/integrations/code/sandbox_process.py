"""One run of a sandboxed program, seen from the host: its input, what it prints and reports, and its end."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import PurePosixPath
from typing import Any, cast

from msgspec import Struct

from ragflow_lg.base.errors import ForeignJsonError, ServiceError
from ragflow_lg.base.foreign_json import SMALL_BYTES, read_foreign_json
from ragflow_lg.base.json_scanner import JsonLimits, parse_foreign_json
from ragflow_lg.base.values import JsonValue
from ragflow_lg.base.worker_tasks import WorkerTask, worker_task
from ragflow_lg.integrations.code.code_settings import CodeLimits, LimitName, exceeded
from ragflow_lg.integrations.code.programs import ARTIFACT_TYPES, CodeResult
from ragflow_lg.services.artifacts import Artifact
from ragflow_lg.services.workers import Workers

CHUNK_BYTES = 65_536
HEAD_BYTES = 2048
"""What the line before an artifact takes: its name has at most 255 characters, which JSON may escape."""
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


class Ending(Struct, frozen=True):
    """How a program has ended, and what it has sent."""

    stdout: bytes
    stderr: bytes
    report: Sequence[bytes] | None
    """Its lines; None if there are more than a sandbox writes."""
    exit_code: int
    exceeded: LimitName | None = None
    """The limit because of which it was stopped."""


class _Report:
    """The lines of a report, which are counted while they arrive. A hostile program can send anything."""

    def __init__(self, limits: CodeLimits) -> None:
        # Each byte of an artifact takes 4/3 characters; JSON escapes at most double the value, which is JSON already.
        artifacts = limits.artifacts * (4 * limits.artifact_bytes // 3 + HEAD_BYTES)
        self._room = artifacts + 2 * limits.result_bytes + CHUNK_BYTES
        self._max_lines = 2 * limits.artifacts + 3
        self.lines: list[bytearray] = [bytearray()]

    @property
    def is_too_long(self) -> bool:
        """Whether there are more lines than a sandbox writes."""
        return len(self.lines) > self._max_lines

    @property
    def is_too_large(self) -> bool:
        """Whether there are more bytes."""
        return self._room < 0

    def feed(self, chunk: bytes) -> None:
        """Add what comes next."""
        self._room -= len(chunk)
        first, *others = chunk.split(b"\n", self._max_lines + 1)
        self.lines[-1] += first
        self.lines += map(bytearray, others)


class _Run:
    """The state of a run: its process, what it has sent, and the first limit that it exceeds."""

    def __init__(self, process: asyncio.subprocess.Process, limits: CodeLimits) -> None:
        self.process = process
        self.limits = limits
        self.exceeded: LimitName | None = None
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.report = _Report(limits)

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
        """Read what the program reports. It is stopped if that is too much; the rest is read until it has ended."""
        while chunk := await stream.read(CHUNK_BYTES):
            if self.report.is_too_long:
                self.stop()
            elif self.report.is_too_large:
                self.stop("result_bytes")
            else:
                self.report.feed(chunk)

    async def watch(self, measure: Watch) -> None:
        """Stop the program when it exceeds a limit that the kernel does not enforce."""
        while True:
            if limit := await measure(self.process.pid, self.limits):
                self.stop(limit)
                return
            await asyncio.sleep(WATCH_S)


async def execute(command: SandboxCommand, request: bytes, limits: CodeLimits, watch: Watch) -> Ending:
    """Start a command and run it until it ends or exceeds a limit. Nothing that it has started survives.

    Raises:
        ServiceError: if the command cannot be started.
    """
    process, report, close = await _start(command)
    run = _Run(process, limits)
    watching = asyncio.create_task(run.watch(watch))
    work = asyncio.gather(
        run.feed(request),
        run.collect(process.stdout, run.stdout),
        run.collect(process.stderr, run.stderr),
        run.collect_report(report),
        process.wait(),
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
        close()
    lines = None if run.report.is_too_long else [bytes(line) for line in run.report.lines if line]
    return Ending(bytes(run.stdout), bytes(run.stderr), lines, process.returncode or 0, run.exceeded)


async def _start(
    command: SandboxCommand,
) -> tuple[asyncio.subprocess.Process, asyncio.StreamReader, Callable[[], None]]:
    """Start a command. Return its process, and its report with a function that closes it."""
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
    with ExitStack() as unless_connected:
        unless_connected.callback(_kill, process)  # above all, if this task is cancelled
        reader = asyncio.StreamReader()
        pipe = os.fdopen(read_report, "rb", buffering=0)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        unless_connected.pop_all()
    return process, reader, transport.close


def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill a process and everything in its group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(ProcessLookupError):
        process.kill()


MAX_NAME_CHARS = 255
MAX_HEAD_ENTRIES = 8
"""Maximum number of fields and values in the object that a line of a report contains."""
_LIMITS = frozenset(CodeLimits.__struct_fields__)


async def read_ending(ending: Ending, limits: CodeLimits, workers: Workers) -> CodeResult:
    """Return the result of a run. A hostile program can write to the pipe of its report itself.

    Raises:
        CodeLimitError: if it exceeded a limit.
        ServiceError: if the report is not one.
    """
    if ending.exceeded:
        raise exceeded(limits, ending.exceeded)
    if ending.report is None:
        raise _damaged()
    artifacts: list[Artifact] = []
    has_value, value = False, None
    lines = iter(ending.report)
    for line in lines:
        if has_value:
            raise _damaged()
        if len(line) > SMALL_BYTES:
            has_value, value = True, await _read_value(workers, read_value_line, line, limits)
            continue
        head = _parse_head(line)
        if (name := head.get("exceeded")) in _LIMITS:
            raise exceeded(limits, cast("LimitName", name), str(head.get("detail", "")))
        if "artifact" in head:
            artifacts.append(await _read_artifact(head["artifact"], next(lines, b""), limits))
        elif "value" in head:
            has_value, value = True, await _read_value(workers, read_foreign_json, _text(head["value"]), limits)
    if len(artifacts) > limits.artifacts:
        raise exceeded(limits, "artifacts")
    stdout, stderr = ending.stdout.decode("utf-8", "replace"), ending.stderr.decode("utf-8", "replace")
    return CodeResult(stdout, stderr, ending.exit_code, has_value, value, tuple(artifacts))


def _damaged() -> ServiceError:
    return ServiceError("The code has damaged the report of its result.")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise _damaged()
    return value


def _parse_head(line: bytes) -> Mapping[str, Any]:
    """Return the object in a line."""
    with suppress(ForeignJsonError):
        value = parse_foreign_json(line, JsonLimits(len(line), MAX_HEAD_ENTRIES))
        if isinstance(value, dict):
            return cast("Mapping[str, Any]", value)
    raise _damaged()


@worker_task("Reading the value that main returned", small_size=0)
def read_value_line(line: bytes, limits: JsonLimits) -> JsonValue:
    """Return the value in a line that contains it as a text of JSON.

    Raises:
        ForeignJsonError: if it exceeds the limits.
        ServiceError: if the line contains no value.
    """
    return read_foreign_json(_text(_parse_head(line).get("value")), limits)


async def _read_value(
    workers: Workers, task: WorkerTask[[Any, JsonLimits], JsonValue], text: str | bytes, limits: CodeLimits
) -> JsonValue:
    """Return the value of ``main``. NaN and infinity become null, as everywhere in a canvas."""
    try:
        return await workers.run(task, text, JsonLimits(limits.result_bytes))
    except ForeignJsonError as error:
        raise ServiceError(f"The value that main returned cannot be used: it {error}.") from None


async def _read_artifact(name: object, content: bytes, limits: CodeLimits) -> Artifact:
    """Return an artifact whose name is a relative path without ``..``. Its content is a JSON text in base64."""
    name = _text(name)
    path = PurePosixPath(name)
    is_safe = name.isprintable() and "\\" not in name and 0 < len(name) <= MAX_NAME_CHARS
    if not is_safe or path.is_absolute() or ".." in path.parts:
        raise ServiceError(f"The artifact {name[:80]!r} has a name that cannot be used.")
    extension = path.suffix.lower()
    if extension not in limits.artifact_types:
        raise exceeded(limits, "artifact_types", name)
    if len(content) < 2 or content[:1] + content[-1:] != b'""':
        raise _damaged()
    try:
        data = base64.b64decode(content[1:-1], validate=True)
    except ValueError:
        raise _damaged() from None
    if len(data) > limits.artifact_bytes:
        raise exceeded(limits, "artifact_bytes", name)
    return Artifact(name, ARTIFACT_TYPES.get(extension, "application/octet-stream"), data)
