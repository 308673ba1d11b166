"""One worker process and its protocol, seen from the parent."""

from __future__ import annotations

import asyncio
import binascii
import os
import pickle
import signal
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from contextvars import Context
from typing import Any, NoReturn

import orjson

from ragflow_lg.adapters.workers.worker_main import LENGTH_BYTES
from ragflow_lg.base import errors
from ragflow_lg.base.errors import RagflowLgError, ServiceError, WorkLimitError
from ragflow_lg.base.worker_tasks import WorkerTask

MAX_RESPONSE_BYTES = 256 * 1024 * 1024
"""Maximum size of a response, so that a worker cannot fill the memory of its parent."""

PATIENCE = 3
"""How many times its limit a task may take while others use the processor; the kernel counts processor time."""

_PROGRAM = ("-P", "-m", "ragflow_lg.adapters.workers.worker_main")
_VARIABLES = ("PATH", "LANG", "LC_ALL", "TZ", "SYSTEMROOT", "TEMP", "TMPDIR")
"""Environment variables that a worker inherits. Keys and passwords are not among them."""

_NOWHERE = "http://127.0.0.1:9"
"""A proxy that does not exist: no library may load anything, such as the packages that a Typst source names."""


class WorkerProcess:
    """A worker process. It performs one request at a time."""

    def __init__(self, process: Process, memory_bytes: int) -> None:
        self._process = process
        self._memory_bytes = memory_bytes
        self._is_killed = False

    @classmethod
    async def start(cls, memory_bytes: int) -> WorkerProcess:
        """Start a process. It imports the modules of its tasks when they are first used."""
        environment = {name: value for name in _VARIABLES if (value := os.environ.get(name)) is not None}
        environment["HTTPS_PROXY"] = environment["https_proxy"] = _NOWHERE
        environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        starting = asyncio.create_subprocess_exec(
            sys.executable,
            *_PROGRAM,
            str(memory_bytes),
            stdin=PIPE,
            stdout=PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=environment,
        )
        # The event loop receives the results of all tasks in this context: it must not be the first tenant's.
        creating = asyncio.create_task(starting, context=Context())
        try:
            process = await creating
        except asyncio.CancelledError:
            if not creating.cancelled() and creating.exception() is None:
                creating.result().kill()  # it has started, but its caller was cancelled meanwhile
            raise
        return cls(process, memory_bytes)

    async def perform(self, task: WorkerTask[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a task and return its result. The process is killed unless it answers.

        Raises:
            WorkLimitError: if the task exceeds a limit, or ends the process.
            RagflowLgError: if the task raises it.
        """
        request = pickle.dumps((task.module, task.name, task.seconds, args, kwargs), pickle.HIGHEST_PROTOCOL)
        is_answered = False
        try:
            response = await self._exchange_in_time(request, task.seconds)
            is_answered = True
        except TimeoutError:
            raise WorkLimitError(f"{task.activity} did not finish within {task.seconds:g} s and was stopped.") from None
        except (OSError, asyncio.IncompleteReadError):
            await self._fail_ended(task)
        finally:
            if not is_answered:
                self.kill()
        is_last, kind, *rest = orjson.loads(response)
        if is_last:
            self.kill()
        if kind == "result":
            return rest[0]
        if kind == "bytes":
            return binascii.a2b_base64(rest[0])
        self._fail(task, kind, rest)

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def is_usable(self) -> bool:
        """Whether the process can take another request."""
        return not self._is_killed and self._process.returncode is None

    def kill(self) -> None:
        """End the process at once, and the programs that it has started."""
        self._is_killed = True
        if self._process.returncode is None:
            self._end_group()

    def _end_group(self) -> None:
        with suppress(ProcessLookupError):
            try:
                os.killpg(self.pid, signal.SIGKILL)
            except (AttributeError, ProcessLookupError):  # Windows has no groups, and a new worker has none yet
                self._process.kill()

    async def wait(self) -> None:
        """Wait until the process has ended."""
        await self._process.wait()

    async def _exchange_in_time(self, request: bytes, seconds: float) -> bytes:
        """Send a request and return the response."""
        async with asyncio.timeout(PATIENCE * seconds):
            return await self._exchange(request)

    async def _exchange(self, request: bytes) -> bytes:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(len(request).to_bytes(LENGTH_BYTES, "big"))
        stdin.write(request)
        await stdin.drain()
        length = int.from_bytes(await stdout.readexactly(LENGTH_BYTES), "big")
        if length > MAX_RESPONSE_BYTES:
            raise WorkLimitError(f"The result of {length:,} bytes exceeds the limit of {MAX_RESPONSE_BYTES:,}.")
        return await stdout.readexactly(length)

    async def _fail_ended(self, task: WorkerTask[..., Any]) -> NoReturn:
        """Raise an error for a process that has ended without an answer."""
        self._end_group()
        status = await self._process.wait()
        if sys.platform != "win32":
            if status == -signal.SIGXCPU:
                raise WorkLimitError(
                    f"{task.activity} did not finish within {task.seconds:g} s of processor time and was stopped."
                )
            if status == -signal.SIGABRT:  # libraries that are not written in Python end so
                why = f"probably because it needs more than {self._memory_bytes // 1024**2:,} MiB of memory"
                raise WorkLimitError(f"{task.activity} ended its worker process, {why}.")
        raise WorkLimitError(f"{task.activity} ended its worker process with status {status}.")

    def _fail(self, task: WorkerTask[..., Any], kind: str, rest: list[Any]) -> NoReturn:
        if kind == "memory":
            mebibytes = self._memory_bytes // 1024**2
            raise WorkLimitError(f"{task.activity} needs more than {mebibytes:,} MiB of memory and was stopped.")
        if kind == "error":
            name, message = rest
            raise _error_class(name)(message)
        raise ServiceError(f"{task.activity} failed: {rest[0]}.")


def _error_class(name: str) -> type[RagflowLgError]:
    """Return the project's error class with this name that takes just a message."""
    kind = getattr(errors, str(name), None)
    if isinstance(kind, type) and issubclass(kind, RagflowLgError) and name in _MESSAGE_ERRORS:
        return kind
    return ServiceError


_MESSAGE_ERRORS = frozenset({"ComponentError", "ForeignJsonError", "ServiceError", "SettingsError", "WorkLimitError"})
