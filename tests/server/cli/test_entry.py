from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.server.cli.command import ROOT, SUPPORT, write_canvas


def command(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "ragflow_lg.server", *map(str, arguments)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=ROOT,
        env={**os.environ, **environment},
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    "arguments",
    [("run", "none.json"), ("draw", "none.json"), ("run", str(SUPPORT), "-s", "a", "--checkpoint", "ftp://x")],
)
def test_a_mistake_is_one_line_and_code_2(arguments: tuple[str, ...]) -> None:
    result = command(*arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("ragflow-lg: ")
    assert len(result.stderr.splitlines()) == 1


def test_a_refused_canvas_tells_all_errors(tmp_path: Path) -> None:
    path = write_canvas(tmp_path / "bad.json", ("begin", "Begin", {}, ["A:1", "B:1"]), ("A:1", "Nope", {}, []))
    result = command("run", path)
    assert result.returncode == 2
    assert "component-unknown" in result.stderr
    assert "Traceback" not in result.stderr


def test_any_locale_will_do() -> None:
    for arguments in (("draw", SUPPORT), ("check", SUPPORT), ("run", SUPPORT, "客服 ü", "-m", "demo")):
        result = command(*arguments, PYTHONIOENCODING="ascii", LC_ALL="C")
        assert result.returncode == 0, result.stderr
        assert "Traceback" not in result.stderr


def test_an_endless_file_is_no_canvas() -> None:
    result = command("check", "/dev/zero")
    assert result.returncode == 1
    assert "document-too-large" in result.stdout


def test_a_reader_that_leaves_is_no_error() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "ragflow_lg.server", "schema"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(1)
    process.stdout.close()
    assert b"Traceback" not in process.stderr.read()
    process.stderr.close()
    process.wait(timeout=30)


def test_ctrl_c_stops_the_run_in_order(tmp_path: Path) -> None:
    slow = "{% for i in range(10000) %}{% for j in range(10000) %}{% endfor %}{% endfor %}"
    path = write_canvas(
        tmp_path / "slow.json",
        ("begin", "Begin", {}, ["Message:Slow"]),
        ("Message:Slow", "Message", {"content": [slow]}, []),
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "ragflow_lg.server", "run", str(path), "x"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if b"Message:Slow" in line:
            break
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 1
    assert b"Traceback" not in errors


def test_the_version_is_told() -> None:
    done = command("--version")
    assert (done.returncode, done.stdout.strip()) == (0, version("ragflow-lg"))
