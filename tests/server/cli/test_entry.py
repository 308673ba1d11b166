import os
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.harness.loaded_python import python_command
from tests.server.cli.command import ROOT, SUPPORT, call, write_canvas

COMMAND = [sys.executable, "-m", "ragflow_lg"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "none.json"),
        ("canvas", "draw", "none.json"),
        ("run", str(SUPPORT), "-s", "a", "--checkpoint", "ftp://x"),
    ],
)
def test_a_user_error_is_one_line_with_exit_code_2(arguments: tuple[str, ...]) -> None:
    result = call(*arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("ragflow-lg: ")
    assert len(result.stderr.splitlines()) == 1


def test_an_invalid_canvas_is_refused_with_its_errors(tmp_path: Path) -> None:
    path = write_canvas(tmp_path / "bad.json", ("begin", "Begin", {}, ["A:1", "B:1"]), ("A:1", "Nope", {}, []))
    result = call("run", path)
    assert result.returncode == 2
    assert "component-unknown" in result.stderr


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
    process = subprocess.Popen(
        python_command("-m", "ragflow_lg", "canvas", "schema"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(1)
    process.stdout.close()
    assert b"Traceback" not in process.stderr.read()
    process.stderr.close()
    process.wait(timeout=30)


def test_ctrl_c_stops_the_run_without_a_traceback(tmp_path: Path) -> None:
    slow = "{% for i in range(10000) %}{% for j in range(10000) %}{% endfor %}{% endfor %}"
    path = write_canvas(
        tmp_path / "slow.json",
        ("begin", "Begin", {}, ["Message:Slow"]),
        ("Message:Slow", "Message", {"content": [slow]}, []),
    )
    command = python_command("-m", "ragflow_lg", "run", path, "x")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT)
    assert process.stdout is not None
    for line in process.stdout:
        if b"Message:Slow" in line:
            break
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 1
    assert b"Traceback" not in errors


def test_the_version_is_printed() -> None:
    result = call("--version")
    assert (result.returncode, result.stdout.strip()) == (0, version("ragflow-lg"))
