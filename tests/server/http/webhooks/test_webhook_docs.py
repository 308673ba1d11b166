"""The commands of the page on webhooks work as printed."""

import asyncio
import os
import re
from pathlib import Path

import pytest

from tests.server.cli.command import ROOT
from tests.server.http.app_server import start_app

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs" / "webhooks.md").read_text("utf-8")
COMMANDS = [
    block
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    if not language and "curl" in block
]


async def test_the_commands_work(tmp_path: Path) -> None:
    commands = re.sub(r"^export KEY=.*\n", "", "\n".join(COMMANDS), flags=re.MULTILINE)
    async with start_app(tmp_path) as server:
        environment = {**os.environ, "URL": f"{server.url}/api/v1", "KEY": server.key, "NO_PROXY": "*"}
        process = await asyncio.create_subprocess_exec(
            *("bash", "-c", f"set -euo pipefail\n{commands.replace('curl ', 'curl -sS --fail-with-body ')}"),
            cwd=ROOT,
            env=environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, output + errors
    assert '"message":"Order 17: Where is it?"' in output.decode(), "the call is answered"
    assert '"finished":true' in output.decode(), "the log shows the test to its end"
