"""Server and worker processes that share a queue."""

from asyncio.subprocess import Process
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.server.replicas import RAGFLOW_LG, Program


async def start_worker(settings: Path, concurrency: int = 8, program: Program = RAGFLOW_LG) -> Process:
    """Start a worker and wait until it plays runs."""
    arguments: list[Any] = ["worker", "--concurrency", str(concurrency), "--model", "any@Mock", "--settings", settings]
    process = await program.start(arguments, settings.parent)
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
