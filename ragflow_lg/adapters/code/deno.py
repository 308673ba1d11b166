"""The sandbox made of Deno's permissions (https://deno.com): for systems without Linux's namespaces.

Deno runs JavaScript itself, and Python with Pyodide, a CPython in WebAssembly. A program has no permission at all: no
file, no network, no process, no variable of the environment. Its files are in the memory of its process. The kernel and
`ragflow_lg.adapters.code.deno` limit what Deno does not. As root, Deno is started as the user ``nobody``.
"""

from __future__ import annotations

import asyncio
import base64
import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import to_builtins

from ragflow_lg.adapters.code.code_settings import DEFAULT_LIMITS, CodeLimits, LimitName, exceeded
from ragflow_lg.adapters.code.pyodide_folder import check_folder
from ragflow_lg.adapters.code.sandbox_process import Ending, SandboxCommand, SandboxProcess, read_ending, start_process
from ragflow_lg.adapters.code.sandbox_watch import read_memory_bytes
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.base.extras import install_command
from ragflow_lg.services.code import CodeRequest, CodeResult, Language
from ragflow_lg.services.workers import NoWorkers, Workers


class Usage(NamedTuple):
    """What a process uses."""

    memory_bytes: int = 0
    cpu_s: float = 0.0
    threads: int = 0


class UsageWatch:
    """Compares what a process uses with what it used at first, which is the interpreter's share."""

    def __init__(self) -> None:
        self._first: Usage | None = None

    async def find_excess(self, pid: int, limits: CodeLimits) -> LimitName | None:
        """Return the limit that the program exceeds, if any."""
        usage = read_proc(pid) if sys.platform == "linux" else await read_ps(pid)
        if self._first is None:
            self._first = usage
            return None
        first = self._first
        if usage.memory_bytes - first.memory_bytes > limits.memory_bytes:
            return "memory_bytes"
        if usage.cpu_s - first.cpu_s > limits.cpu_s:
            return "cpu_s"
        return "processes" if usage.threads - first.threads > limits.processes else None


def read_proc(pid: int) -> Usage:
    """Return what Linux says of a process."""
    with suppress(OSError, ValueError, IndexError):
        # After the name in brackets, which can contain anything; the order is that of proc(5).
        fields = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
        cpu_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return Usage(read_memory_bytes(pid), cpu_s, int(fields[17]))
    return Usage()


async def read_ps(pid: int) -> Usage:
    """Return what ``ps`` says of a process; it does not count threads."""
    process = await asyncio.create_subprocess_exec(
        "ps", "-o", "rss=,time=", "-p", str(pid), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    output, _ = await process.communicate()
    memory, _, time = output.decode("ascii", "replace").strip().partition(" ")
    with suppress(ValueError):
        return Usage(int(memory) * 1024, _seconds(time.strip()))
    return Usage()


def _seconds(time: str) -> float:
    """Return the seconds in a time such as ``1:02.50`` or ``2-03:04:05``."""
    days, _, rest = time.rpartition("-")
    seconds = 0.0
    for part in rest.split(":"):
        seconds = 60 * seconds + float(part)
    return seconds + 86_400 * int(days or 0)


START_S = 60.0
MAX_SHOWN_CHARS = 300


async def start_ready(command: SandboxCommand) -> SandboxProcess:
    """Start a process that reports one line when it is ready.

    Raises:
        ServiceError: if it cannot be started.
    """
    process = await start_process(command)
    is_ready = False
    async with AsyncExitStack() as unless_started:
        unless_started.push_async_callback(process.stop)
        with suppress(TimeoutError):
            async with asyncio.timeout(START_S):
                is_ready = bool(await process.read_report_line())
        unless_started.pop_all()
    if not is_ready:
        _, printed = await process.stop()
        reason = printed.decode("utf-8", "replace").strip()[-MAX_SHOWN_CHARS:] or "it said nothing."
        raise ServiceError(f"The sandbox cannot be started: {reason}")
    return process


NOBODY = 65534
PAGE_BYTES = 65_536
"""A page of WebAssembly's memory."""

OWN_BYTES = 1024**3
"""What Deno reserves for itself without using it."""

_SHELL_SIGNAL = 128
_FLAGS = ("--no-prompt", "--no-remote", "--no-npm", "--no-config", "--no-lock", "--cached-only", "--no-code-cache")
_LIMITED = 'ulimit -c 0; ulimit -f 0; ulimit -d {kilobytes} 2>/dev/null; NODE_CHANNEL_FD={report} exec "$@"'
"""Limits of the kernel: no core files, no files at all, and memory; macOS has no limit on memory."""

_OUT_OF_MEMORY = (b"out of memory", b"OOM error")


class Deno:
    """A `ragflow_lg.services.code.CodeSandbox` that starts Deno for each program."""

    def __init__(
        self, program: str, pyodide: Path, limits: CodeLimits = DEFAULT_LIMITS, workers: Workers | None = None
    ) -> None:
        """Initialize. ``program`` is the path of Deno, ``pyodide`` the folder with Pyodide; ``workers`` read values."""
        self._program = program
        self._workers = workers or NoWorkers()
        self._pyodide = pyodide
        self._limits = limits
        self._has_python = False

    async def run(self, request: CodeRequest) -> CodeResult:
        """Run a program in a process of its own."""
        limits = self._limits
        text = _request_text(request, limits)
        if request.language == "python":
            await self.check_python()
        process = await start_ready(self._command(request.language))
        ending = await process.run(text, limits, UsageWatch().find_excess)
        return await read_ending(_check_ending(ending, limits), limits, self._workers)

    async def check_python(self) -> None:
        """Check, once, that Pyodide is there.

        Raises:
            SettingsError: if a file is missing, or another one than expected.
        """
        if not self._has_python:
            await asyncio.to_thread(check_folder, self._pyodide)
            check_readable(self._pyodide)
            self._has_python = True

    def _command(self, language: Language) -> SandboxCommand:
        environment = {"PATH": "/usr/bin:/bin", "DENO_DIR": "/dev/null/deno", "NO_COLOR": "1", "LANG": "C.UTF-8"}
        return SandboxCommand(partial(self._arguments, language), environment, reports_to_socket=True)

    def _arguments(self, language: Language, report: int, _: int) -> list[str]:
        limits = self._limits
        pages, mebibytes = limits.memory_bytes // PAGE_BYTES, max(16, limits.memory_bytes // 1024**2)
        script = _LIMITED.format(kilobytes=(OWN_BYTES + 2 * limits.memory_bytes) // 1024, report=report)
        permissions = [f"--allow-read={self._pyodide}"] if language == "python" else []
        main = base64.b64encode(_source("deno_program.js").encode()).decode("ascii")
        return [
            *_without_privileges(),
            *("/bin/sh", "-c", script, "sh", self._program, "run", *_FLAGS, *permissions),
            f"--v8-flags=--max-old-space-size={mebibytes},--wasm-max-mem-pages={pages},--wasm-lazy-compilation",
            f"data:application/javascript;base64,{main}",
            *(language, f"{self._pyodide.as_uri()}/"),
        ]


def find_deno(program: str = "") -> str:
    """Return the path of Deno: the given one, or that of the package ``deno``, or the installed one.

    Raises:
        SettingsError: if there is none, or it cannot be started safely.
    """
    if os.name != "posix" or not hasattr(os, "geteuid"):
        raise SettingsError("The sandbox in Deno needs Linux or macOS.")
    path = shutil.which(program or _packaged() or "deno")
    if path is None:
        raise SettingsError(f"Deno is not installed. Install it with: {install_command('code-deno')}")
    if _is_root() and (sys.platform != "linux" or shutil.which("setpriv") is None):
        raise SettingsError("As root, Deno must run as the user nobody, which needs setpriv of Linux's util-linux.")
    check_readable(Path(path))
    return path


def check_readable(path: Path) -> None:
    """Check that the user who runs Deno can read a file or folder. As root, that is nobody.

    Raises:
        SettingsError: if not.
    """
    if not _is_root():
        return
    for folder in (path, *path.resolve().parents):
        if folder.exists() and not folder.stat().st_mode & 0o005 == 0o005:
            raise SettingsError(
                f"As root, programs run as the user nobody, who cannot read {str(path)!r}: all users must be able to "
                f"read {str(folder)!r}."
            )


def _packaged() -> str:
    """Return the path of the program in the package ``deno``, or ``""``."""
    if find_spec("deno") is None:
        return ""
    package: Any = importlib.import_module("deno")
    try:
        return str(package.find_deno_bin())
    except FileNotFoundError:
        return ""


def _is_root() -> bool:
    return os.geteuid() == 0


def _without_privileges() -> Sequence[str]:
    """Return the command that starts another one without privileges and, as root, as nobody."""
    if sys.platform != "linux" or shutil.which("setpriv") is None:
        return ()
    user = (f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups") if _is_root() else ()
    return ("setpriv", *user, "--no-new-privs")


def _request_text(request: CodeRequest, limits: CodeLimits) -> bytes:
    """Return what the main module reads.

    Raises:
        CodeLimitError: if it is too large.
    """
    fields = {"code": request.code, "arguments": dict(request.arguments), "limits": to_builtins(limits)}
    size = len(json.dumps(fields))
    if size > limits.code_bytes:
        raise exceeded(limits, "code_bytes")
    name = "python_program.py" if request.language == "python" else "javascript_program.js"
    message = {"program": _source(name), "files": _source("memory_files.js"), "request": fields}
    return json.dumps(message).encode("ascii")


@cache
def _source(name: str) -> str:
    return (Path(__file__).parent / name).read_text("utf-8")


def _check_ending(ending: Ending, limits: CodeLimits) -> Ending:
    """Return the ending with the exit code that a shell shows for a signal.

    Raises:
        CodeLimitError: if Deno ended because it had no more memory.
    """
    if ending.exit_code >= 0:
        return ending
    if not ending.exceeded and any(text in ending.stderr for text in _OUT_OF_MEMORY):
        raise exceeded(limits, "memory_bytes")
    code = _SHELL_SIGNAL - ending.exit_code
    return Ending(ending.stdout, ending.stderr, ending.report, code, ending.exceeded)
