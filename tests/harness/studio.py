"""Run canvases on LangGraph's development server: ``python -m tests.campaigns studio DIR…``.

Prints one line per canvas, then the number of canvases, the start time of the server, and the number of calls that
blocked its event loop. Every canvas that can be drawn must be an assistant, and no run may block.
"""

import asyncio
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langgraph_sdk import get_client

from ragflow_lg.dsl.forms import form_fields
from ragflow_lg.server.assembly.canvas_files import canvas_files
from ragflow_lg.server.devtools.studio.canvas_discovery import Project, find_canvases
from ragflow_lg.server.devtools.studio.development_server import DevelopmentServer, free_port
from ragflow_lg.server.devtools.studio.studio_project import write_project
from tests.harness.corpus import EXAMPLES

HOST = "127.0.0.1"
MAX_ANSWERS = 10
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


def fill_form(declared: Any) -> dict[str, Any]:
    """Return an answer for every field of a form."""
    fields = form_fields(declared)
    return {f.name: f.options[0] if f.options else EXAMPLES.get(f.type.lower(), "hello") for f in fields}


async def play(client: Any, graph: str, inputs: dict[str, Any]) -> str:
    """Play a turn, answer its forms, and return how it ended."""
    thread = (await client.threads.create())["thread_id"]
    state = await client.runs.wait(thread, graph, input={"query": "hello", "inputs": inputs}, raise_error=False)
    for _ in range(MAX_ANSWERS):
        if not state.get("__interrupt__"):
            break
        answers = {pause["id"]: fill_form(pause["value"]["inputs"]) for pause in state["__interrupt__"]}
        state = await client.runs.wait(thread, graph, command={"resume": answers}, raise_error=False)
    if "__error__" in state:
        return f"refused: {json.dumps(state['__error__'])[:160]}"
    turn = state.get("turn", {})
    return turn["status"] + (f": {turn['error'][3][:120]!r}" if "error" in turn else "")


async def check_all(opened: StudioServer) -> int:
    """Run every assistant; return the number of canvases that fail to run."""
    client = get_client(url=opened.url)
    assistants = {a["graph_id"]: a for a in await client.assistants.search(limit=1000)}
    failures = 0
    for canvas in opened.project.canvases:
        result = "is not an assistant"
        if canvas.graph in assistants:
            assistant = assistants[canvas.graph]["assistant_id"]
            schemas: Any = await client.assistants.get_schemas(assistant)
            drawing = await client.assistants.get_graph(assistant, xray=True)
            form = schemas["input_schema"]["properties"]["inputs"].get("properties", {})
            inputs = {name: _value(schema) for name, schema in form.items()}
            result = f"{len(drawing['nodes'])} nodes, {await play(client, canvas.graph, inputs)}"
        is_ok = canvas.graph in assistants and ("succeeded" in result or "failed" in result or "refused" in result)
        failures += not is_ok
        sys.stdout.write(f"{'ok  ' if is_ok else 'FAIL'}  {canvas.file.name}  {result}\n")
    return failures


def _value(schema: dict[str, Any]) -> Any:
    if "enum" in schema:
        return schema["enum"][0]
    kinds: dict[str, Any] = {"integer": 1, "number": 1, "boolean": True, "object": {}, "array": []}
    return kinds.get(schema["type"], "hello")


def main(folders: Sequence[str]) -> int:
    """Run all canvases of some folders; return 1 if any fails or blocks."""
    os.environ.setdefault("NO_PROXY", HOST)
    with tempfile.TemporaryDirectory() as temporary:
        canvases = Path(temporary) / "canvases"
        canvases.mkdir()
        for folder in folders:
            for file in canvas_files(Path(folder)):
                shutil.copy(file, canvases)
        with studio_server(canvases) as opened:
            failures = asyncio.run(check_all(opened))
            blocked = opened.output.count("BlockingError")
            for file in opened.project.skipped:
                sys.stdout.write(f"skip  {file.name}\n")
            count = len(opened.project.canvases)
            start = f"start {opened.start_s:.1f} s"
            sys.stdout.write(f"{count} canvases, {failures} wrong, {start}, {blocked} blocking calls\n")
    return 1 if failures or blocked else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
