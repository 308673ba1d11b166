"""What an attack needs: a server on SQLite and Redis, models, and keys of two tenants."""

import asyncio
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from msgspec import Struct

from tests.harness.redis_server import redis_server
from tests.stores import fresh_prefix

ROOT = Path(__file__).parents[3]
COMMAND = (sys.executable, "-m", "ragflow_lg")
HEAP = {"MALLOC_ARENA_MAX": "2", "MALLOC_TRIM_THRESHOLD_": "131072"}
"""As in the image: freed memory goes back to the system."""
RULES = '[[rules]]\nreplies = [{ text = ["It ", "is ", "on ", "its ", "way."] }]\n'
SETTINGS = """
checkpoints = "{redis}"
checkpoint_prefix = "{prefix}"
default_model = "any@Mock"
[providers.Mock]
base_url = "{model}"
[providers.Hostile]
base_url = "{upstream}/v1"
[tenants.attacker]
models = ["*"]
runs = 4
[server]
database = "sqlite:///{folder}/server.db"
files = "{folder}/files"
"""


class Stage(Struct):
    """The server that runs, and the keys for it."""

    process: Process
    url: str
    neighbour_key: str
    attacker_key: str
    log: Path


@asynccontextmanager
async def open_stage(folder: Path) -> AsyncGenerator[Stage]:
    """Start everything with a new database."""
    async with AsyncExitStack() as stack:
        rules, settings, log = folder / "rules.toml", folder / "settings.toml", folder / "server.log"
        rules.write_text(RULES)
        _, model = await stack.enter_async_context(_running([*COMMAND, "mock-llm", str(rules)], folder))
        hostile = (sys.executable, "-m", "tests.harness.noisy.upstream")
        _, upstream = await stack.enter_async_context(_running(hostile, folder))
        redis = stack.enter_context(redis_server())
        values = {"redis": redis, "prefix": fresh_prefix(), "model": model, "upstream": upstream, "folder": folder}
        settings.write_text(SETTINGS.format(**values))
        option = ("--settings", str(settings))
        with log.open("wb") as errors:
            serve = [*COMMAND, "serve", "--port", "0", *option]
            process, url = await stack.enter_async_context(_running(serve, folder, errors.fileno()))
            assert url, f"The server did not start: {log.read_text()}"
            ours, theirs = [await _create_key(folder, "--tenant", each, *option) for each in ("default", "attacker")]
        yield Stage(process, url, ours, theirs, log)


async def _create_key(folder: Path, *options: str) -> str:
    async with _running([*COMMAND, "keys", "create", "noisy", *options], folder) as (_, key):
        return key


@asynccontextmanager
async def _running(command: Sequence[str], folder: Path, errors: int = DEVNULL) -> AsyncGenerator[tuple[Process, str]]:
    """Run a process; yield it and the first line that it prints."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **HEAP}
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=errors, cwd=folder, env=environment)
    try:
        assert process.stdout is not None
        yield process, (await process.stdout.readline()).decode().strip()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
