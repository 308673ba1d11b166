"""The page of the native API: its commands are run as they stand there."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from server.http.native.problems import ABOUT
from tests.server.cli.command import ROOT
from tests.server.http.running import canvas, running

PAGE = (ROOT / "docs" / "native_api.md").read_text("utf-8")
TASKS = dict(re.findall(r"^## (.+?)\n.*?^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
FORM = canvas(
    ("begin", "Begin", {}, ["UserFillUp:Size"]),
    ("UserFillUp:Size", "UserFillUp", {"inputs": {"size": {"name": "Size", "type": "integer"}}}, ["Message:0"]),
    ("Message:0", "Message", {"content": ["Size {UserFillUp:Size@size}"]}, []),
)
FIELD = """
import json, sys
value = json.load(sys.stdin)
for key in sys.argv[1].split("."):
    value = value[int(key) if key.isdigit() else key]
print(value)
"""
SAID = {
    "Begin a run": '"status":"waiting"',
    "Answer what it asks": '"answer":"Size 42"',
    "Follow it, and come back": "event: end",
    "Stop, continue, begin again, fork": '"status":"cancelled"',
    "Sessions": '"has_more":false',
    "Versions": '"is_published":true',
    "Check and draw a canvas": '"runs":true',
}


def test_every_task_is_run() -> None:
    assert set(TASKS) == set(SAID)


def test_every_code_stands_in_the_table() -> None:
    told = " ".join(ABOUT.values())
    assert [
        code for code in re.findall(r"`([a-z]+-[a-z-]+)`", told) if f"`{code}`" not in PAGE and "-A" not in code
    ] == []


@pytest.mark.parametrize("task", sorted(SAID))
async def test_the_commands_work_as_they_stand(tmp_path: Path, task: str) -> None:
    (tmp_path / "field.py").write_text(FIELD)
    commands = TASKS[task].replace("curl -s", "curl -sS --fail-with-body")
    async with running(tmp_path) as server:
        agent_id = await server.agent(FORM)
        script = f'set -euo pipefail\nfield() {{ "{sys.executable}" "{tmp_path}/field.py" "$1"; }}\n{commands}'
        environment = {
            **os.environ,
            "NATIVE": f"{server.url}/native/v1",
            "AGENT": agent_id,
            "AUTH": f"Authorization: Bearer {server.key}",
            "JSON": "Content-Type: application/json",
            "NO_PROXY": "*",
        }
        process = await asyncio.create_subprocess_exec(
            *("bash", "-c", script),
            cwd=ROOT,
            env=environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        told, errors = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, told + errors
    assert SAID[task] in told.decode()
