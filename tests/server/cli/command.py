"""Running the command in this process."""

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from unittest.mock import patch

from typer.testing import CliRunner, Result

from ragflow_lg.server.cli.command_line import app
from ragflow_lg.server.cli.entry import main
from tests.fakes.canvas import canvas
from tests.harness.loaded_python import python_command

ROOT = Path(__file__).parents[3]
SUPPORT = ROOT / "tests" / "fixtures" / "drawings" / "support.json"


class Completed(NamedTuple):
    """The exit code and output of a command."""

    returncode: int
    stdout: str
    stderr: str


Cli: TypeAlias = Callable[..., Completed]


def _with_json(arguments: Iterable[str | Path]) -> list[str]:
    """Return the words of a command; one that plays a turn prints its events, unless it says otherwise."""
    words = list(map(str, arguments))
    plays = words[:1] in (["run"], ["resume"], ["continue"]) or words[:2] == ["sessions", "rerun"]
    return [*words, *(("--events", "json") if plays and not {"--events", "-e", "--help"} & {*words} else ())]


def invoke(*arguments: str | Path, text: str = "", environment: Mapping[str, str] | None = None) -> Result:
    """Run ``ragflow-lg ARGUMENTS``; errors that `main` would report are in ``exception``."""
    return CliRunner().invoke(app, _with_json(arguments), input=text, env=dict(environment or {}))


def call(*arguments: str | Path) -> Completed:
    """Call `main` as the installed command does, including its error messages and exit code."""
    stdout, stderr = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    code: Any = 0
    argv = patch.object(sys, "argv", ["ragflow-lg", *_with_json(arguments)])
    with argv, redirect_stdout(stdout), redirect_stderr(stderr):
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
    texts: list[str] = []
    for stream in (stdout, stderr):
        stream.flush()
        stream.seek(0)
        texts.append(stream.read())
    return Completed(code, *texts)


async def run_documented(commands: str, **environment: str) -> str:
    """Run commands of a page, in which curl fails if the server refuses; return what they write."""
    script = f"set -euo pipefail\n{commands.replace('curl ', 'curl -sS --fail-with-body ')}"
    process = await asyncio.create_subprocess_exec(
        *("bash", "-c", script),
        cwd=ROOT,
        env={**os.environ, **environment, "NO_PROXY": "*"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, output + errors
    return output.decode()


def one_line(text: str) -> str:
    """Return a message without its line breaks and the frame that Typer may draw around it."""
    return " ".join(text.replace("│", " ").split())


def frames(result: Result) -> list[dict[str, Any]]:
    """Return the events that were written."""
    return [json.loads(line) for line in result.stdout.splitlines()]


def write_canvas(path: Path, *nodes: tuple[str, str, dict[str, Any], list[str]]) -> Path:
    """Write a canvas of ``(id, component, params, downstream)``; Begin is the first."""
    components = {
        id_: {"obj": {"component_name": name, "params": params}, "downstream": downstream}
        for id_, name, params, downstream in nodes
    }
    path.write_text(json.dumps({"components": components}), encoding="utf-8")
    return path


def save(file: Path | str, components: dict[str, Any], first: Any = None, **more: Any) -> Path:
    """Write a canvas of these components."""
    Path(file).write_text(json.dumps(canvas(components, first, **more)), "utf-8")
    return Path(file)


def start(*arguments: str | Path, **environment: str) -> subprocess.Popen[str]:
    """Start the command in a process, in the working folder."""
    return subprocess.Popen(
        python_command("-m", "ragflow_lg", *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )


def read_lines(process: subprocess.Popen[str], count: int) -> list[str]:
    """Return the next lines that a process prints."""
    assert process.stdout is not None
    return [process.stdout.readline().strip() for _ in range(count)]


def end(process: subprocess.Popen[str], number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
    """Send a process a signal; return its exit code and the rest of what it wrote to its standard error."""
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors
