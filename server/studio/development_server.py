"""``langgraph dev`` as a child process: started, waited for, begun again when canvases come or go."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

import httpx

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.extras import require

__all__ = ["DevelopmentServer", "free_port", "studio_link"]

START_S = 120.0
STOP_S = 10.0
_COMMAND = "ragflow_lg.server.studio.langgraph_command"
_JOBS = 10
"""Runs side by side; LangGraph's own default is one."""

_QUIET = {
    "LANGGRAPH_CLI_NO_ANALYTICS": "1",
    "LANGGRAPH_NO_VERSION_CHECK": "true",
    "LANGSMITH_TRACING": "false",
}
_PROBLEMS_ONLY = {"LOG_LEVEL": "WARNING"}


def free_port(host: str, port: int = 0) -> int:
    """Give a port that is free now: the one that is named, or any.

    LangGraph's server would silently take another one.

    Raises:
        SettingsError: if the named one is not free.
    """
    from ragflow_lg.server.http.edge.listening_socket import open_socket  # needs uvicorn

    with open_socket(host, port) as opened:
        return opened.getsockname()[1]


def studio_link(url: str) -> str:
    """Give the address of the page that shows the server at ``url``."""
    return f"https://smith.langchain.com/studio/?baseUrl={url}"


class DevelopmentServer:
    """One ``langgraph dev``. The canvases' folder is its working directory."""

    def __init__(
        self,
        config: Path,
        host: str,
        port: int,
        *,
        environment: Mapping[str, str],
        log: BinaryIO | None = None,
        tells_all: bool = True,
    ) -> None:
        """``environment`` is laid over that of this process.

        What it says goes to ``log``, or to standard error; only problems, unless it ``tells_all``.
        """
        self._config = config
        self._host, self._port = host, port
        self._log = log or sys.stderr.buffer
        colours = {} if self._log.isatty() else {"LOG_COLOR": "false"}
        quiet = {} if tells_all else _PROBLEMS_ONLY
        self._environment = {**colours, **quiet, **os.environ, **_QUIET, **environment}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address of its API."""
        return f"http://{self._host}:{self._port}"

    @property
    def is_running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it and wait until it answers.

        Raises:
            SettingsError: if LangGraph's command is not installed, or the server ends or does not answer in time.
        """
        require("studio", "LangGraph's development server (`--no-server` writes the files without it)")
        # -P: what lies beside the canvases takes no module's place
        command = [sys.executable, "-P", "-m", _COMMAND, "dev", "--no-browser", "--config", str(self._config.name)]
        command += ["--host", self._host, "--port", str(self._port), "--n-jobs-per-worker", str(_JOBS)]
        self._process = subprocess.Popen(
            command,
            cwd=self._config.parent,
            env=self._environment,
            stdin=subprocess.PIPE,  # closed when this process ends, however it does
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,  # so that Ctrl-C reaches it through us
        )
        if not self._answers(START_S):
            self.stop()
            raise SettingsError("LangGraph's development server did not start; what it says is above.")

    def stop(self) -> None:
        """End it, and what it has started."""
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
        """Wait until the server ends; begin it again whenever ``has_changed`` says so."""
        while self.is_running:
            time.sleep(interval_s)
            if has_changed():
                self.stop()
                self.start()

    def _answers(self, patience_s: float) -> bool:
        end = time.monotonic() + patience_s
        with httpx.Client(base_url=self.url, trust_env=False, timeout=5) as client:
            while self.is_running and time.monotonic() < end:
                try:
                    if client.get("/ok").is_success:
                        return True
                except httpx.HTTPError:
                    time.sleep(0.1)
        return False
