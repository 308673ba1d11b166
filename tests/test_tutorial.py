"""The tutorial: its commands run one after the other in one shell, and print what the page shows."""

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.loaded_python import python_command

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
STEPS = re.findall(r"^<!-- run -->\n```sh\n(.*?)^```\n\n```text\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def _play(script: str, folder: Path) -> list[str]:
    """Run a script in a terminal. Return what it printed after each step."""
    program = folder / "bin" / "ragflow-lg"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.join(python_command("-m", "ragflow_lg"))} "$@"\n')
    program.chmod(0o755)
    path = os.pathsep.join(map(str, (program.parent, Path(sys.executable).parent, os.environ["PATH"])))
    environment = {**os.environ, "PATH": path, "COLUMNS": "200", "TERM": "dumb", "PYTHONPATH": str(ROOT)}
    terminal, end = os.openpty()
    with subprocess.Popen(
        ["bash", "-c", script], cwd=folder, env=environment, stdin=end, stdout=end, stderr=end, start_new_session=True
    ) as shell:
        os.close(end)
        printed = b""
        try:
            while piece := os.read(terminal, 65_536):
                printed += piece
        except OSError:  # Linux reports the end of a terminal so
            pass
        finally:
            shell.kill()
            os.close(terminal)
    return STYLE.sub("", printed.decode()).replace("\r\n", "\n").split("=== end of a step\n")


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.timeout(180)
def test_every_step_prints_what_the_page_shows(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    script = "".join(f"{commands.replace('9380', port)}echo '=== end of a step'\n" for commands, _ in STEPS)
    printed = _play(script, tmp_path)
    assert len(printed) == len(STEPS) + 1, printed[-1]
    for text, (commands, shown) in zip(printed, STEPS, strict=False):
        at = 0
        for line in shown.splitlines():
            at = text.find(line, at)
            assert at >= 0, f"{commands}does not print {line!r} there, but:\n{text}"
            at += len(line)


def test_the_page_has_its_steps() -> None:
    assert len(STEPS) == PAGE.count("<!-- run -->") == 7
