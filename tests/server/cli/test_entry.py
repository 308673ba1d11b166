import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fakes.canvas import node
from tests.server.cli.command import ROOT, SUPPORT, call, end, save, start

COMMAND = [sys.executable, "-m", "ragflow_lg"]


@pytest.mark.parametrize(
    "arguments", [("canvas", "draw", SUPPORT), ("check", SUPPORT), ("run", SUPPORT, "客服 ü", "-m", "demo")]
)
def test_every_locale_works(arguments: tuple[str | Path, ...]) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    command = [*COMMAND, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, cwd=ROOT, env=environment, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr
    assert arguments[0] != "canvas" or "▶" in done.stdout.decode("utf-8")


def test_an_endless_file_is_too_large_for_a_canvas() -> None:
    result = call("check", "/dev/zero")
    assert result.returncode == 1
    assert "document-too-large" in result.stdout


def test_a_closed_pipe_is_not_an_error() -> None:
    process = start("canvas", "schema")
    assert process.stdout is not None
    process.stdout.read(1)
    process.stdout.close()
    assert process.stderr is not None
    assert "Traceback" not in process.stderr.read()
    process.wait(timeout=30)


def test_ctrl_c_stops_the_run_without_a_traceback() -> None:
    slow = "{% for i in range(10000) %}{% for j in range(10000) %}{% endfor %}{% endfor %}"
    process = start("run", save("slow.json", {"Message:Slow": node("Message", {"content": [slow]})}), "x", "-e", "json")
    assert process.stdout is not None
    assert any("Message:Slow" in line for line in process.stdout)
    time.sleep(0.2)
    code, errors = end(process, signal.SIGINT)
    assert (code, "Traceback" in errors) == (1, False)
