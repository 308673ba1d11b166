"""The sandbox made of Linux's namespaces by the program ``bwrap`` (https://github.com/containers/bubblewrap).

A program sees the folders of the system's programs and libraries, read-only, and one folder of its own, which is in
memory. It has no network, no ``/proc``, no environment and no capabilities, and cannot gain any. Its limits are those
of the kernel, and those that `find_excess` measures. As root, the sandbox is started as the user ``nobody``, because
the limit on processes does not bind root.
"""

from __future__ import annotations

import errno
import json
import marshal
import os
import platform
import shutil
import struct
import sys
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

from msgspec import to_builtins

from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.base.process_memory import list_descendants, read_memory_bytes
from ragflow_lg.integrations.code.code_settings import (
    DEFAULT_LIMITS,
    SYSTEM_INTERPRETERS,
    SYSTEM_PATH,
    CodeLimits,
    Interpreters,
    LimitName,
    exceeded,
)
from ragflow_lg.integrations.code.programs import CodeRequest, CodeResult, Language
from ragflow_lg.integrations.code.sandbox_process import Ending, SandboxCommand, execute, read_ending
from ragflow_lg.services.workers import NoWorkers, Workers

NOBODY = "65534"
SCRATCH = "/tmp"
"""The folder inside the sandbox in which a program can write; its working folder is below it."""

HOME = f"{SCRATCH}/run"
ADDRESS_BYTES = 4 * 1024**3
"""Address space that Node.js reserves without using it."""

MAX_OPEN_FILES = 128
CHILDREN = Path("/proc/thread-self/children")
"""The list by which the memory and the files of a program are measured. Some kernels lack it."""

PROGRAMS = ("setpriv", "prlimit")
"""Programs of util-linux that are needed besides ``bwrap``."""

_SIGNALS: dict[int, LimitName] = {24: "cpu_s", 25: "file_bytes"}
"""The limits for which the kernel sends SIGXCPU and SIGXFSZ."""

_STARTERS = (b"bwrap: ", *(f"{name}: ".encode() for name in PROGRAMS))
_SHELL_SIGNAL = 128
_MARSHAL_FORMAT = 2
"""The version that every Python 3 reads."""

_OUT_OF_HEAP = b"JavaScript heap out of memory"


class Bubblewrap:
    """A `CodeSandbox` that starts ``bwrap`` for each program."""

    def __init__(
        self,
        program: str,
        limits: CodeLimits = DEFAULT_LIMITS,
        interpreters: Interpreters = SYSTEM_INTERPRETERS,
        workers: Workers | None = None,
    ) -> None:
        """Initialize. ``workers`` read what programs return."""
        self._program = program
        self._limits = limits
        self._interpreters = interpreters
        self._workers = workers or NoWorkers()

    async def run(self, request: CodeRequest) -> CodeResult:
        """Run a program in a new sandbox."""
        limits = self._limits
        text = _request_text(request, limits)
        interpreter = self._interpreters.path(request.language)
        inner = _interpreter_command(request.language, interpreter, limits)
        command = SandboxCommand(
            partial(self._command, inner, _folders_of(interpreter)), _environment(), syscall_filter()
        )
        ending = await execute(command, text, limits, partial(find_excess, scratch=SCRATCH))
        _check_ending(ending, limits)
        return await read_ending(ending, limits, self._workers)

    def _command(self, inner: Sequence[str], folders: Sequence[str], report: int, rules: int) -> list[str]:
        limits = self._limits
        as_nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"] if _is_root() else []
        binds = [part for folder in (*folders, *self._interpreters.folders) for part in ("--ro-bind", folder, folder)]
        limited = [
            *("prlimit", f"--nproc={limits.processes}", f"--cpu={limits.cpu_s}:{limits.cpu_s + 1}"),
            *(f"--fsize={limits.file_bytes}", f"--nofile={MAX_OPEN_FILES}", "--core=0"),
        ]
        options = [
            *("--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session"),
            *("--cap-drop", "ALL", "--uid", NOBODY, "--gid", NOBODY, "--hostname", "sandbox"),
            *_system_folders(),
            *("--dev", "/dev", "--remount-ro", "/dev"),
            *("--perms", "1777", "--size", str(limits.scratch_bytes), "--tmpfs", SCRATCH, "--dir", HOME),
            *binds,  # they may be below the scratch folder
            *("--remount-ro", "/", "--chdir", HOME, "--seccomp", str(rules), "--"),
        ]
        return [
            *as_nobody,
            self._program,
            *options,
            *limited,
            *(part.replace("{report}", str(report)) for part in inner),
        ]


def find_bubblewrap(program: str = "") -> str:
    """Return the path of ``bwrap``, by default the installed one.

    Raises:
        SettingsError: if something that is needed is not installed.
    """
    if sys.platform != "linux":
        raise SettingsError("Bubblewrap needs Linux.")
    if not CHILDREN.exists():
        raise SettingsError(
            f"This kernel does not list the processes of a program ({CHILDREN}), so none can be limited."
        )
    if not syscall_filter():
        raise SettingsError(f"There is no filter of system calls for this machine ({os.uname().machine}).")
    for name in PROGRAMS:
        if shutil.which(name) is None:
            raise SettingsError(f"Bubblewrap needs {name}, which is not installed. Install util-linux.")
    path = shutil.which(program or "bwrap")
    if path is None:
        raise SettingsError("bwrap is not installed.")
    return path


def _is_root() -> bool:
    return os.geteuid() == 0


def _request_text(request: CodeRequest, limits: CodeLimits) -> bytes:
    """Return what the program inside the sandbox reads."""
    fields = {"code": request.code, "arguments": dict(request.arguments), "limits": to_builtins(limits)}
    if request.language == "python":
        text = marshal.dumps(fields, _MARSHAL_FORMAT)
    else:
        text = json.dumps(fields).encode("ascii")
    if len(text) > limits.code_bytes:
        raise exceeded(limits, "code_bytes")
    return text


def _interpreter_command(language: Language, interpreter: str, limits: CodeLimits) -> list[str]:
    """Return the end of the command inside the sandbox; ``{report}`` stands for the pipe of the report."""
    if language == "python":
        memory = 2 * limits.memory_bytes
        options = ["-I", "-B", "-X", "utf8", "-c", _source("python_program.py")]
    else:
        memory = ADDRESS_BYTES + 4 * limits.memory_bytes
        heap = max(16, limits.memory_bytes * 3 // 4 // 1024**2)
        options = [f"--max-old-space-size={heap}", "-e", _source("javascript_program.js")]
    return [f"--as={memory}", "--", interpreter, *options, "{report}"]


@cache
def _source(name: str) -> str:
    return (Path(__file__).parent / name).read_text("utf-8")


def _environment() -> dict[str, str]:
    """Return the environment of the sandbox. Numeric libraries would start a thread for each processor."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {"PATH": SYSTEM_PATH, "HOME": HOME, "TMPDIR": SCRATCH, "LANG": "C.UTF-8", "MPLBACKEND": "Agg", **threads}


@cache
def _system_folders() -> tuple[str, ...]:
    """Return the options that make the system's programs and libraries visible, and nothing of its configuration."""
    options = ["--ro-bind", "/usr", "/usr"]
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        path = Path("/", name)
        if path.is_symlink():
            options += ["--symlink", os.readlink(path), str(path)]
        elif path.is_dir():
            options += ["--ro-bind", str(path), str(path)]
    for name in ("/etc/alternatives", "/etc/ld.so.cache"):  # some interpreters and libraries are found through them
        options += ["--ro-bind-try", name, name]
    return tuple(options)


@cache
def _folders_of(interpreter: str) -> tuple[str, ...]:
    """Return the folders of an interpreter that is not below ``/usr``, such as that of a virtual environment."""
    paths = [Path(interpreter), Path(interpreter).resolve()]
    prefixes = dict.fromkeys(str(path.parent.parent) for path in paths if not path.is_relative_to("/usr"))
    return tuple(prefix for prefix in prefixes if prefix != "/")


def _check_ending(ending: Ending, limits: CodeLimits) -> None:
    """Check that the sandbox started, and that no signal reports a limit."""
    if ending.stderr.startswith(_STARTERS) and not ending.report:
        reason = ending.stderr.decode("utf-8", "replace").partition(": ")[2].strip()[:300]
        raise ServiceError(f"Bubblewrap failed: {reason}")
    if limit := _SIGNALS.get(ending.exit_code - _SHELL_SIGNAL):
        raise exceeded(limits, limit)
    if _OUT_OF_HEAP in ending.stderr and ending.exit_code > _SHELL_SIGNAL:
        raise exceeded(limits, "memory_bytes")


async def find_excess(pid: int, limits: CodeLimits, scratch: str) -> LimitName | None:
    """Return the limit that the processes below ``pid`` exceed, if any. The kernel limits only each of them.

    ``scratch`` is the folder inside the sandbox whose file system contains all files of the program.
    """
    pids = list(list_descendants(pid))
    if sum(map(read_memory_bytes, pids)) > limits.memory_bytes:
        return "memory_bytes"
    if pids and _count_files(pids[-1], scratch, limits.scratch_bytes) > limits.files:
        return "files"
    return None


def _count_files(pid: int, scratch: str, size: int) -> int:
    """Return the number of files in the file system of a folder inside the sandbox; 0 if that is unknown.

    While the sandbox is being set up, the same path leads to the host's folder. The file system has another size there.
    """
    with suppress(OSError):
        usage = os.statvfs(f"/proc/{pid}/root{scratch}")
        if 0 <= usage.f_blocks * usage.f_frsize - size < usage.f_frsize:
            return usage.f_files - usage.f_ffree
    return 0


_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_X32_BIT = 0x40000000
_NEW_NAMESPACES = 0x7E020000
"""The flags of ``clone`` that create namespaces."""

_AF_UNIX = 1
_CLONE3 = 435


@cache
def syscall_filter(machine: str = "") -> bytes:
    """Return the seccomp filter for a machine, by default this one; empty if there is none for it.

    The namespaces already keep a program from the host. The filter reduces what it can reach of the kernel, and closes
    what no limit covers: memory that belongs to no process, and namespaces of its own. Source: Linux's ``seccomp(2)``.
    A forbidden call fails with EPERM, clone3 with ENOSYS, after which the C library uses clone. Only local sockets can
    be created: not all families of sockets respect the network namespace.
    """
    machines = tomllib.loads(_source("syscalls.toml"))
    rules = machines.get(machine or platform.machine())
    if rules is None:
        return b""
    denied, missing = _fail(errno.EPERM), _fail(errno.ENOSYS)
    program = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_EQUAL, rules["audit"], 1, 0),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER),
        _step(_AT_LEAST, _X32_BIT, 0, 1),
        missing,
        _step(_EQUAL, _CLONE3, 0, 1),
        missing,
    ]
    for number in (*rules["forbidden"], *machines["everywhere"]):
        program += [_step(_EQUAL, number, 0, 1), denied]
    program += [
        _step(_EQUAL, rules["clone"], 0, 4),
        _step(_LOAD, _FIRST_ARGUMENT),
        _step(_ANY_BIT, _NEW_NAMESPACES, 0, 1),
        denied,
        _step(_RETURN, _ALLOW),
        _step(_EQUAL, rules["socket"], 0, 3),
        _step(_LOAD, _FIRST_ARGUMENT),
        _step(_EQUAL, _AF_UNIX, 1, 0),
        denied,
        _step(_RETURN, _ALLOW),
    ]
    return b"".join(program)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _fail(number: int) -> bytes:
    return _step(_RETURN, _ERRNO | number)
