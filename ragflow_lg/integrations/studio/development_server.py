"""``langgraph dev`` as a child process, restarted when canvases are added or removed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import httpx

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.extras import require
from ragflow_lg.server.settings.trusted_folders import is_trusted, trust

START_S = 120.0
STOP_S = 10.0
_COMMAND = "ragflow_lg.integrations.studio.langgraph_command"
_JOBS = 10
"""Concurrent runs; LangGraph's default is one."""

_QUIET = {"LANGGRAPH_CLI_NO_ANALYTICS": "1", "LANGGRAPH_NO_VERSION_CHECK": "true", "LANGSMITH_TRACING": "false"}
_PROBLEMS_ONLY = {"LOG_LEVEL": "WARNING"}


def free_port(host: str, port: int = 0) -> int:
    """Return ``port`` if it is free, or any free port for 0.

    LangGraph's server would silently use another port.

    Raises:
        SettingsError: If ``port`` is in use.
    """
    from ragflow_lg.server.http.edge.uvicorn_server import open_socket  # requires uvicorn

    with open_socket(host, port) as listener:
        return listener.getsockname()[1]


def studio_link(url: str) -> str:
    """Return the URL of the Studio page for the server at ``url``."""
    return f"https://smith.langchain.com/studio/?baseUrl={url}"


class DevelopmentServer:
    """A ``langgraph dev`` process whose working directory is the folder that contains the config."""

    def __init__(
        self,
        config: Path,
        host: str,
        port: int,
        *,
        environment: Mapping[str, str],
        log: BinaryIO | None = None,
        is_verbose: bool = True,
    ) -> None:
        """Prepare the process.

        ``environment`` overrides this process's environment. The output goes to ``log`` if it is given, otherwise to
        standard error; unless ``is_verbose``, only warnings and errors are logged.
        """
        self._config = config
        self._host, self._port = host, port
        self._log = log or sys.stderr.buffer
        colours = {} if self._log.isatty() else {"LOG_COLOR": "false"}
        level = {} if is_verbose else _PROBLEMS_ONLY
        self._environment = {**colours, **level, **os.environ, **_QUIET, **environment}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """URL of the API."""
        return f"http://{self._host}:{self._port}"

    @property
    def is_running(self) -> bool:
        """Whether the process has been started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process and wait until it responds.

        Raises:
            SettingsError: If LangGraph's command is not installed, the folder of its files was not created here, or the
                server ends or does not respond in time.
        """
        require("studio", "LangGraph's development server (`--no-server` writes the files without it)")
        prepare_state_folder(self._config.parent)
        # -P: files next to the canvases must not shadow modules
        command = [sys.executable, "-P", "-m", _COMMAND, "dev", "--no-browser", "--config", str(self._config.name)]
        command += ["--host", self._host, "--port", str(self._port), "--n-jobs-per-worker", str(_JOBS)]
        self._process = subprocess.Popen(
            command,
            cwd=self._config.parent,
            env=self._environment,
            stdin=subprocess.PIPE,  # is closed when this process ends, even if it is killed
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,  # Ctrl-C must reach only this process, which then stops the child
        )
        if not self._wait_until_ready(START_S):
            self.stop()
            raise SettingsError("LangGraph's development server did not start; its output is above.")

    def stop(self) -> None:
        """Stop the process and its children."""
        process = self._process
        if process is None:
            return
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            if process.poll() is not None:
                break
            os.killpg(process.pid, number)
            try:
                process.wait(STOP_S if number != signal.SIGKILL else None)
            except subprocess.TimeoutExpired:
                continue
        if process.stdin is not None:
            process.stdin.close()
        self._process = None

    def watch(self, has_changed: Callable[[], bool], *, interval_s: float = 1.0) -> None:
        """Block until the server ends; restart it whenever ``has_changed`` returns True."""
        while self.is_running:
            time.sleep(interval_s)
            if has_changed():
                self.stop()
                self.start()

    def _wait_until_ready(self, timeout_s: float) -> bool:
        end = time.monotonic() + timeout_s
        with httpx.Client(base_url=self.url, trust_env=False, timeout=5) as client:
            while self.is_running and time.monotonic() < end:
                try:
                    if client.get("/ok").is_success:
                        return True
                except httpx.HTTPError:
                    time.sleep(0.1)
        return False


@contextmanager
def lock_folder(folder: Path) -> Generator[None]:
    """Lock a folder inside the context. The lock also ends with the process, even if it is killed.

    Raises:
        SettingsError: If another process has locked the folder, or it does not exist.
    """
    try:
        import fcntl
    except ImportError:  # Windows has neither these locks nor the development server
        yield
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise SettingsError(f"{str(folder)!r} cannot be opened: {error.strerror}.") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SettingsError(
                f"Another `ragflow-lg studio` serves {str(folder)!r}: stop it, or use another folder with --output."
            ) from None
        except OSError:  # the file system does not support locks
            pass
        yield
    finally:
        os.close(descriptor)


NAME = ".langgraph_api"


def prepare_state_folder(parent: Path) -> None:
    """Create the folder for LangGraph's server, or check that an existing one was created here.

    It is recognised by its path and its number in the file system, which a copy or another folder does not have.

    Raises:
        SettingsError: If it was created by something else, such as a download.
    """
    folder = parent / NAME
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        if folder.is_symlink() or not folder.is_dir() or not is_trusted("studio", folder, _mark(folder)):
            raise SettingsError(
                f"{str(folder)!r} was not created by `ragflow-lg studio` on this machine. LangGraph's server would run"
                " code from its files: delete it, or use another folder with --output."
            ) from None
    except OSError as error:
        raise SettingsError(f"{str(folder)!r} cannot be created: {error.strerror or error}.") from None
    else:
        trust("studio", folder, _mark(folder))


def _mark(folder: Path) -> str:
    facts = folder.stat()
    return f"{facts.st_dev}:{facts.st_ino}"
