"""LangGraph's development server with canvases."""

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ragflow_lg.integrations.studio.canvas_discovery import Project, find_canvases
from ragflow_lg.integrations.studio.development_server import DevelopmentServer, free_port
from ragflow_lg.integrations.studio.studio_project import write_project

HOST = "127.0.0.1"
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class StudioServer:
    """A running development server."""

    url: str
    log: Path
    project: Project
    start_s: float

    @property
    def output(self) -> str:
        """The output so far."""
        return self.log.read_text("utf-8", "replace")


@contextmanager
def studio_server(folder: Path, *, checkpoints: str = "memory://", **variables: str) -> Generator[StudioServer]:
    """Serve the canvases of a folder with the demo model. The parent folder must contain nothing else."""
    project = find_canvases(folder)
    uses_store = not checkpoints.startswith("memory")
    config, _ = write_project(folder, project.canvases, model="demo", uses_store=uses_store)
    environment = {"PYTHONPATH": str(ROOT), "RAGFLOW_LG_CHECKPOINTS": checkpoints, **variables}
    log = folder.parent / "server.log"  # not where the server watches for changes
    with log.open("wb") as stream:
        server = DevelopmentServer(config, HOST, free_port(HOST), environment=environment, log=stream)
        start = time.monotonic()
        try:
            server.start()
            yield StudioServer(server.url, log, project, time.monotonic() - start)
        finally:
            server.stop()
