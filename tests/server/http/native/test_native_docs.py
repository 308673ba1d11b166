"""The commands of the page on the native API work as printed."""

import asyncio
import os
import re
from pathlib import Path

import pytest

from ragflow_lg.server.http.native.problem_details import STATUS_DESCRIPTIONS
from tests.server.cli.command import ROOT
from tests.server.http.app_server import start_app

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs" / "native_api.md").read_text("utf-8")
TASKS = dict(re.findall(r"^## (.+?)\n.*?^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
SET_UP = TASKS.pop("Set it up")
OUTPUTS = {
    "Start a run": '"status":"waiting"',
    "Answer forms": '"answer":"A parcel, size 42."',
    "Follow a run and reconnect": "event: end",
    "Cancel, continue, rerun, fork": '"status":"cancelled"',
    "Resume from any run": '"status":"waiting"',
    "Look inside a run": '"params_schema"',
    "Sessions": '"has_more":false',
    "Schedules": '"time_zone":"Europe/Berlin"',
    "Time limit of forms": '"timeout_s":86400',
    "Versions": '"is_published":true',
    "Check and draw a canvas": '"runs":true',
}


def test_every_task_is_run() -> None:
    assert set(TASKS) == set(OUTPUTS)


def test_every_code_is_documented() -> None:
    text = " ".join(STATUS_DESCRIPTIONS.values())
    assert [
        code for code in re.findall(r"`([a-z]+-[a-z-]+)`", text) if f"`{code}`" not in PAGE and "-A" not in code
    ] == []


@pytest.mark.parametrize("task", sorted(OUTPUTS))
async def test_the_commands_work(tmp_path: Path, task: str) -> None:
    commands = (SET_UP + TASKS[task]).replace("curl -s", "curl -sS --fail-with-body")
    async with start_app(tmp_path) as server:
        script = f"set -euo pipefail\n{commands}"
        environment = {**os.environ, "SERVER": server.url, "KEY": server.key, "NO_PROXY": "*"}
        process = await asyncio.create_subprocess_exec(
            *("bash", "-c", script),
            cwd=ROOT,
            env=environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, output + errors
    assert OUTPUTS[task] in output.decode()


async def test_the_document_names_both_kinds_of_keys_for_files(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        paths = (await server.client.get(f"{server.url}/openapi.json")).json()["paths"]
    both: list[dict[str, list[str]]] = [{"ApiKey": []}, {"BetaKey": []}]
    assert paths["/native/v1/files"]["get"]["security"] == both
    assert paths["/native/v1/files/{file_id}"]["delete"]["security"] == both
    assert paths["/native/v1/keys"]["get"]["security"] == both[:1]


async def test_every_route_with_a_body_documents_that_it_can_be_malformed(tmp_path: Path) -> None:
    async with start_app(tmp_path) as server:
        paths = (await server.client.get(f"{server.url}/openapi.json")).json()["paths"]
    wrong = [
        path
        for path, operations in paths.items()
        for operation in operations.values()
        if "application/json" in operation.get("requestBody", {}).get("content", {})
        and "400" not in operation["responses"]
        and path.startswith("/native/")
    ]
    assert wrong == ["/native/v1/check", "/native/v1/draw"]  # they describe what is wrong with a canvas
