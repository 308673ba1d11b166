"""Server and worker processes that share a queue."""

import asyncio
import os
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.harness.loaded_python import python_command
from tests.server.cli.command import ROOT


async def start_worker(settings: Path, concurrency: int = 8) -> Process:
    """Start a worker and wait until it plays runs."""
    arguments: list[Any] = ["worker", "--concurrency", str(concurrency), "--model", "any@Mock", "--settings", settings]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = python_command("-m", "ragflow_lg", *arguments)
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, cwd=settings.parent, env=environment)
    assert process.stdout is not None
    try:
        assert (await process.stdout.readline()).startswith(b"Worker ready"), "the worker did not start"
    except BaseException:  # nobody else knows the process
        await end(process)
        raise
    return process


async def end(process: Process) -> None:
    """Kill a process, unless it has ended."""
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()
