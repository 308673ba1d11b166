"""Aegra, an open source server with LangGraph's API, on the files that ``ragflow-lg studio --no-server`` writes.

``make services`` unpacks it into ``.cache/aegra``, because an application and Aegra share one environment and nobody
else needs it.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.harness.studio import HOST, ROOT

PACKAGES = ROOT / ".cache" / "aegra"
START_S = 90.0
STOP_S = 20.0


@contextmanager
def aegra_server(folder: Path, port: int, database_url: str, redis_url: str, log: Path) -> Generator[str]:
    """Serve the ``langgraph.json`` of a folder by ``aegra serve``; yield the URL.

    The server runs in a process, its runs in its workers, which Redis feeds. The output goes to ``log``.
    """
    environment = {
        **os.environ,
        "PYTHONPATH": f"{PACKAGES}:{ROOT}",
        "DATABASE_URL": database_url,
        "REDIS_BROKER_ENABLED": "true",
        "REDIS_URL": redis_url,
        "REDIS_CHANNEL_PREFIX": f"aegra:{port}:",
        "WORKER_QUEUE_KEY": f"aegra:{port}:jobs",
    }
    command = [sys.executable, "-m", "aegra_cli.cli", "serve", "--host", HOST, "--port", str(port)]
    with log.open("wb") as stream:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=stream, stderr=stream, start_new_session=True
        )
    try:
        _wait(process, f"http://{HOST}:{port}", log)
        yield f"http://{HOST}:{port}"
    finally:
        _stop(process)


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    end = time.monotonic() + START_S
    with httpx.Client(base_url=url, trust_env=False) as client:
        while process.poll() is None and time.monotonic() < end:
            try:
                if client.get("/health").is_success:
                    return
            except httpx.HTTPError:
                time.sleep(0.1)
    raise AssertionError(f"Aegra did not start: {log.read_text('utf-8', 'replace')[-2000:]}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the command and the server that it has started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        end = time.monotonic() + STOP_S
        while time.monotonic() < end and _is_alive(process):
            time.sleep(0.05)
    process.wait()


def _is_alive(process: subprocess.Popen[bytes]) -> bool:
    process.poll()  # collects it
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    return True
