"""Python programs that start at once: a process that has loaded the project forks for each of them.

Starting Python and loading the project takes more than a second of processor time. A test of what a command does as a
process uses `python_command`; a test of how Python starts uses ``sys.executable``. Each program has the arguments,
environment, folder, and standard files of the process that asks for it (`tests.harness.loaded_python_client`). Signals
are passed on, and if that process is killed, so is the program.
"""

import atexit
import gc
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, cast
from unittest.mock import patch

ROOT = Path(__file__).parents[2]
VARIABLE = "LOADED_PYTHON"
"""Environment variable with the path of the socket."""
PACKAGES = (
    "ragflow_lg.adapters.chat",
    "ragflow_lg.checkpoints",
    "ragflow_lg.dsl_compiler",
    "ragflow_lg.engine",
    "ragflow_lg.server.cli",
    "ragflow_lg.server.http",
)
LIBRARIES = (
    "aiosqlite",
    "alembic.command",
    "langchain_openai.chat_models.base",
    "langgraph.graph.state",
    "mcp.server.fastmcp",
    "pygls.lsp.server",
    "sqlalchemy.dialects.sqlite.aiosqlite",
    "uvicorn.protocols.http.httptools_impl",
    "uvicorn.protocols.http.h11_impl",
    "uvloop",
)


def python_command(*words: str | Path) -> list[str]:
    """Return the command for ``python WORDS``, where the words begin with ``-m`` or ``-c``."""
    path = os.environ.get(VARIABLE)
    start = ["-I", "-S", str(Path(__file__).with_name("loaded_python_client.py")), path] if path else []
    return [sys.executable, *start, *map(str, words)]


@contextmanager
def loaded_python(prepared_by: str = "") -> Generator[None]:
    """Let `python_command` use a loaded process inside the block. The process loads the project at its first use.

    ``prepared_by`` is a module with a function ``prepare``, which is called before the project is loaded.
    """
    with tempfile.TemporaryDirectory(prefix="ragflow-lg-python-") as folder:
        path = f"{folder}/socket"
        command = [sys.executable, "-m", "tests.harness.loaded_python", path, prepared_by]
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
        with subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as run:
            assert run.stdout is not None
            run.stdout.readline()
            with patch.dict(os.environ, {VARIABLE: path}):
                yield


class _Server:
    """Forks for each connection, and reports the exit code of the program."""

    def __init__(self, path: str, prepared_by: str) -> None:
        self._prepared_by = prepared_by
        self._fork, self._kill = os.fork, signal.SIGKILL  # a preparation may remove them
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen(64)
        self._ended, wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        self._selector = selectors.DefaultSelector()
        self._programs: dict[int, socket.socket] = {}
        self._is_loaded = False

    def serve(self) -> None:
        """Serve until standard input ends, then kill all programs."""
        self._watch(sys.stdin.fileno(), self._stop)
        self._watch(self._listener, self._start)
        self._watch(self._ended, self._report)
        while True:
            for key, _ in self._selector.select():
                key.data()

    def _watch(self, file: Any, react: Callable[[], None]) -> None:
        self._selector.register(file, selectors.EVENT_READ, react)

    def _stop(self) -> None:
        for pid in self._programs:
            os.kill(pid, self._kill)
        os._exit(0)

    def _start(self) -> None:
        connection, _ = self._listener.accept()
        length, files, _, _ = socket.recv_fds(connection, 4, 3)
        with connection.makefile("rb") as stream:
            request: dict[str, Any] = json.loads(stream.read(int.from_bytes(length, "big")))
        if not self._is_loaded:
            _load(self._prepared_by)
            self._is_loaded = True
        pid = self._fork()
        if pid == 0:
            self._close()
            connection.close()
            _become(request, files)
        for file in files:
            os.close(file)
        self._programs[pid] = connection
        self._watch(connection, lambda: self._pass_signal(pid, connection))

    def _close(self) -> None:
        """Close what belongs to the server, in a program."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        self._listener.close()
        for connection in self._programs.values():
            connection.close()

    def _pass_signal(self, pid: int, connection: socket.socket) -> None:
        try:
            numbers = connection.recv(16)
        except ConnectionError:
            numbers = b""
        for number in numbers or (self._kill,):
            os.kill(pid, number)
        if not numbers:
            self._selector.unregister(connection)

    def _report(self) -> None:
        os.read(self._ended, 1024)
        while self._programs:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            connection = self._programs.pop(pid)
            if connection in self._selector.get_map():
                self._selector.unregister(connection)
                connection.send(os.waitstatus_to_exitcode(status).to_bytes(4, "big", signed=True))
            connection.close()


def _load(prepared_by: str) -> None:
    if prepared_by:
        import_module(prepared_by).prepare()
    for package in PACKAGES:
        for module in pkgutil.walk_packages(import_module(package).__path__, f"{package}."):
            with suppress(ModuleNotFoundError):  # of an extra that is not installed
                import_module(module.name)
    for name in LIBRARIES:
        with suppress(ModuleNotFoundError):
            import_module(name)
    from ragflow_lg.catalog import load_catalog

    for _ in load_catalog():  # loads all components
        pass
    gc.collect()
    gc.freeze()  # a collection would copy all objects into each program


def _become(request: dict[str, Any], files: Sequence[int]) -> None:
    """Run a program in this process, and end with it."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    for number, (name, mode) in enumerate([("stdin", "r"), ("stdout", "w"), ("stderr", "w")]):
        file = os.fdopen(number, mode, encoding="utf-8", errors="surrogateescape", closefd=False)
        setattr(sys, name, file)
        setattr(sys, f"__{name}__", file)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.path[:0] = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it in what they start in the background
    try:
        code = _run(request["words"])
        cast("Any", threading)._shutdown()
        cast("Any", atexit)._run_exitfuncs()
    except BaseException:  # noqa: BLE001 - a forked process must not return into the server's code
        traceback.print_exc()
        code = 1
    for file in (sys.stdout, sys.stderr):
        try:
            file.flush()
        except OSError:
            code = code or 120  # as Python does
    os._exit(code)


def _run(words: list[str]) -> int:
    option, program, *arguments = words
    sys.argv = ["-c", *arguments]
    try:
        if option == "-c":
            main = sys.modules["__main__"] = ModuleType("__main__")
            exec(compile(program, "<string>", "exec"), main.__dict__)
        else:
            sys.argv[0] = program
            runpy.run_module(program, run_name="__main__", alter_sys=True)
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return (stop.code or 0) & 0xFF
        sys.stderr.write(f"{stop.code}\n")
        return 1
    return 0


if __name__ == "__main__":
    server = _Server(*sys.argv[1:])
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    server.serve()
