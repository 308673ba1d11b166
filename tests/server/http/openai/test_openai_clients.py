"""Clients of others, in processes of their own, against the server. `make services` installs them.

The table in ``docs/server.md`` names each, with its version and what it did here.
"""

import asyncio
import json
import os
import re
import shutil
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.services import Reply
from tests.server.http.app_server import ECHO, FORM, MODEL, AppServer, start_app
from tests.test_samples import samples

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[4]
FOLDER = ROOT / ".cache" / "openai_clients"
_ROW = re.compile(r"^\| ([^|]+) \| (\d[\d.]+) \| `.* \| ([a-z, ]+) \|$", re.MULTILINE)
CLIENTS = {
    "`openai` for Python": ("python", "openai"),
    "`openai` for Node": ("node", "openai"),
    "AI SDK with `@ai-sdk/openai`": ("node", "AI SDK"),
    "… its chat completions": ("node", "AI SDK, chat"),
    "LangChain's `ChatOpenAI`": ("python", "ChatOpenAI"),
    "… its responses": ("python", "ChatOpenAI, responses"),
    "`pydantic-ai`": ("python", "pydantic-ai"),
    "… its responses model": ("python", "pydantic-ai, responses"),
    "LiteLLM": ("python", "LiteLLM"),
    "`mcp` for Python": ("mcp", "mcp"),
    "`@modelcontextprotocol/sdk`": ("node", "mcp"),
}
"""The packages and the program of each row."""
EXPECTED: dict[str, Any] = {
    "list": True,
    "chat": "You said hi",
    "stream": "Hello",
    "responses": ["Which size?", "Size 42", "Hello"],
    "form": ["Which size?", "Size 42"],
    "progress": "begin",
}
"""What each action returns."""
REFUSALS = {
    "refusal": "No agent has the id or the title 'Nobody'|There is no tool 'Nobody'",
    "schema": r"`(response_format|text\.format|tool_choice|tools)` is not supported",
}
"""Patterns of the errors of others."""


def rows() -> dict[str, tuple[str, list[str]]]:
    """Return the version and the actions of each client in the docs."""
    page = (ROOT / "docs" / "server.md").read_text("utf-8")
    return {name: (version, actions.split(", ")) for name, version, actions in _ROW.findall(page)}


@asynccontextmanager
async def serving(folder: Path) -> AsyncGenerator[tuple[AppServer, dict[str, str]]]:
    replies = [Reply(chunks=["Hell", "o"], repeat=True)]
    async with start_app(folder, replies, mcp=True) as server, server.app.state.mcp.running():
        made = {"Echo": ECHO, "Form": FORM, "Model": MODEL}
        yield server, {title.lower(): await server.agent(dsl, title) for title, dsl in made.items()}


async def run(folder: str, server: AppServer, *program: str) -> str:
    """Run a program with the packages in a folder; return its output."""
    path = FOLDER / folder
    if not path.is_dir() or (folder == "node" and shutil.which("node") is None):
        pytest.skip(f"{path} is missing; run `make services`.")
    process = await asyncio.create_subprocess_exec(
        *program,
        cwd=ROOT,
        env={
            **os.environ,
            "KEY": server.key,
            "MODULES": str(path),
            "PYTHONPATH": f"{path}{os.pathsep}{ROOT}",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        },
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    return output.decode().strip()


def problems(results: dict[str, Any]) -> dict[str, Any]:
    """Return the results that are not as they should be."""
    found: dict[str, Any] = {}
    for name, value in results.items():
        text = "".join(piece or "" for piece in value) if name == "stream" else value
        is_good = re.search(REFUSALS[name], value) if name in REFUSALS else EXPECTED.get(name, text) == text
        if not is_good:
            found[name] = value
    return found


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_client_does_what_the_docs_say(tmp_path: Path, client: str) -> None:
    folder, name = CLIENTS[client]
    path = Path("tests", "harness", "openai_clients.cjs")
    program = ["node", str(path)] if folder == "node" else [sys.executable, "-m", "tests.harness.openai_clients"]
    async with serving(tmp_path) as (server, agents):
        output = await run(folder, server, *program, name, server.url, json.dumps(agents))
    results = json.loads(output.rpartition("\n")[2])
    assert problems(results) == {}
    assert rows().get(client) == (results.pop("version"), list(results))


async def test_the_sample_of_the_docs_runs_with_the_newest_mcp(tmp_path: Path) -> None:
    (sample,) = (text for text in samples("docs/langchain.md", "python") if "ClientSession" in text)
    async with serving(tmp_path) as (server, _):
        call = f"import asyncio\nprint(asyncio.run(ask({server.url!r}, {server.key!r}, 'hi')))"
        assert "You said hi" in await run("mcp", server, sys.executable, "-c", f"{sample}\n{call}")
