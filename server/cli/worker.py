"""``ragflow-lg worker``: plays the runs of servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ragflow_lg.server.cli.options import Model, NoCheckpoint, Queue, SettingsFile
from ragflow_lg.server.cli.server_process import load_process_settings, looking_after, writing_logs
from ragflow_lg.server.cli.terminal import print_line

if TYPE_CHECKING:
    from ragflow_lg.server.settings import Settings


def worker(
    queue: Queue = "",
    concurrency: Annotated[
        int, typer.Option("--concurrency", "-c", help="How many runs are played at the same time.", min=1, max=1000)
    ] = 20,
    model: Model = "",
    settings: SettingsFile = None,
    _checkpoint: NoCheckpoint = "",
) -> None:
    """Play the runs of `ragflow-lg serve`, beside the servers.

    Start any number of workers, on any machine, with the settings of the servers. See docs/workers.md. The output is
    one line when the worker is ready. SIGTERM or Ctrl-C stops runs at their next step, from which other workers
    continue them; a second signal stops the worker immediately.

    Examples:
    ragflow-lg worker --queue redis://127.0.0.1:6379 --settings production.toml

    ragflow-lg worker --concurrency 50 --settings production.toml
    """
    from ragflow_lg.base.errors import SettingsError
    from ragflow_lg.server.assembly.app_state import queue_url
    from ragflow_lg.server.http.edge.uvicorn_server import run
    from ragflow_lg.server.settings.server_section import ServerSection

    config = load_process_settings(settings, queue)
    if not queue_url(config):
        raise SettingsError("A worker needs a queue: set `checkpoints` to redis://…, or use --queue.")
    if (database := config.server.database) == ServerSection().database:
        raise SettingsError(
            "A worker needs the database of the servers: set database in the section [server]. By default, it is "
            f"{database.get_secret_value()}, a file in the working directory."
        )
    run(_work(config, model, concurrency))


async def _work(settings: Settings, model: str, concurrency: int) -> None:
    from ragflow_lg.server.runs.run_worker import open_worker

    with writing_logs(settings):
        async with (
            open_worker(settings, model, concurrency) as worker_,
            looking_after(worker_.app_state, worker_.operations),
        ):
            await worker_.work(lambda: print_line(f"Worker ready for {concurrency} runs."))
