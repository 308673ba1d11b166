"""Checks of what a server needs beside its store: the database and the queue of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragflow_lg.base.errors import RagflowLgError
from ragflow_lg.base.extras import require
from ragflow_lg.checkpoints.check_result import CheckResult
from ragflow_lg.checkpoints.store_url import redact_url, sqlite_path

if TYPE_CHECKING:
    from ragflow_lg.server.settings import Settings


async def probe_server(settings: Settings) -> list[CheckResult]:
    """Query the server's database and the queue of runs. An SQLite file that is missing is not created."""
    database, queue = settings.server.database.get_secret_value(), settings.queue.url.get_secret_value()
    results: list[CheckResult] = []
    if not database.startswith("sqlite:") or sqlite_path(database).exists():
        results.append(await _probe_server_database(database))
    return [*results, await _probe_queue(queue, settings.checkpoint_prefix)] if queue else results


async def _probe_server_database(url: str) -> CheckResult:
    try:
        require("server", "The server's database")
        from ragflow_lg.server.database.database import probe_database

        return CheckResult(True, f"the server's database {await probe_database(url)} answers")
    except RagflowLgError as error:
        return CheckResult(False, "the server's database cannot be used", str(error))


async def _probe_queue(url: str, prefix: str) -> CheckResult:
    try:
        require("redis", "The queue of runs")
        from ragflow_lg.server.streaming.run_queue import open_queue

        async with open_queue(url, prefix=prefix) as queue:
            state = await queue.state()
    except RagflowLgError as error:
        return CheckResult(False, "the queue of runs cannot be used", str(error))
    counts = f"{len(state.waiting):,} wait, {state.played:,} are played"
    return CheckResult(True, f"the queue of runs at {redact_url(url)} answers ({counts})")
