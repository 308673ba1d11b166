"""Open canvases on LangGraph's development server and run each: ``python -m tests.harness.studio DIR…``.

One line a canvas, then how many there were, how long the server took to start, and how often code blocked its loop.
Every canvas of the folders that can be drawn has to be an assistant, and no run may block.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langgraph_sdk import get_client

from ragflow_lg.dsl.forms import form_fields
from ragflow_lg.server.assembly.canvas_files import canvas_files
from ragflow_lg.server.studio.development_server import DevelopmentServer, free_port
from ragflow_lg.server.studio.found_canvases import Project, find_canvases
from ragflow_lg.server.studio.studio_project import write_project
from tests.harness.corpus import EXAMPLES

HOST = "127.0.0.1"
MOST_ANSWERS = 10
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Opened:
    """A development server that runs."""

    url: str
    log: Path
    project: Project
    start_s: float

    @property
    def said(self) -> str:
        """What it has said so far."""
        return self.log.read_text("utf-8", "replace")


@contextmanager
def studio_server(folder: Path, *, checkpoints: str = "memory://", **variables: str) -> Iterator[Opened]:
    """Serve the canvases of a folder, which is alone in its own, with the demo model."""
    project = find_canvases(folder)
    keeps = not checkpoints.startswith("memory")
    config, _ = write_project(folder, project.canvases, model="demo", uses_store=keeps)
    environment = {"PYTHONPATH": str(ROOT), "RAGFLOW_LG_CHECKPOINTS": checkpoints, **variables}
    log = folder.parent / "server.log"  # not where the server watches for changes
    with log.open("wb") as written:
        server = DevelopmentServer(config, HOST, free_port(HOST), environment=environment, log=written)
        began = time.monotonic()
        try:
            server.start()
            yield Opened(server.url, log, project, time.monotonic() - began)
        finally:
            server.stop()


def filled(declared: Any) -> dict[str, Any]:
    """Fill a form."""
    fields = form_fields(declared)
    return {f.name: f.options[0] if f.options else EXAMPLES.get(f.type.lower(), "hello") for f in fields}


async def play(client: Any, graph: str, inputs: dict[str, Any]) -> str:
    """Play a turn and answer what it asks; tell how it ended."""
    thread = (await client.threads.create())["thread_id"]
    state = await client.runs.wait(thread, graph, input={"query": "hello", "inputs": inputs}, raise_error=False)
    for _ in range(MOST_ANSWERS):
        if not state.get("__interrupt__"):
            break
        answers = {pause["id"]: filled(pause["value"]["inputs"]) for pause in state["__interrupt__"]}
        state = await client.runs.wait(thread, graph, command={"resume": answers}, raise_error=False)
    if "__error__" in state:
        return f"refused: {json.dumps(state['__error__'])[:160]}"
    turn = state.get("turn", {})
    return turn["status"] + (f": {turn['error'][3][:120]!r}" if "error" in turn else "")


async def look(opened: Opened) -> int:
    """Run every assistant; give how many do not do as they should."""
    client = get_client(url=opened.url)
    found = {a["graph_id"]: a for a in await client.assistants.search(limit=1000)}
    wrong = 0
    for canvas in opened.project.canvases:
        told = "is no assistant"
        if canvas.graph in found:
            assistant = found[canvas.graph]["assistant_id"]
            schemas = await client.assistants.get_schemas(assistant)
            drawing = await client.assistants.get_graph(assistant, xray=True)
            form = schemas["input_schema"]["properties"]["inputs"].get("properties", {})
            inputs = {name: _value(schema) for name, schema in form.items()}
            told = f"{len(drawing['nodes'])} nodes, {await play(client, canvas.graph, inputs)}"
        is_right = canvas.graph in found and ("succeeded" in told or "failed" in told or "refused" in told)
        wrong += not is_right
        sys.stdout.write(f"{'ok  ' if is_right else 'FAIL'}  {canvas.file.name}  {told}\n")
    return wrong


def _value(schema: dict[str, Any]) -> Any:
    if "enum" in schema:
        return schema["enum"][0]
    kinds: dict[str, Any] = {"integer": 1, "number": 1, "boolean": True, "object": {}, "array": []}
    return kinds.get(schema["type"], "hello")


def main(folders: Sequence[str]) -> int:
    """Run from the command line."""
    os.environ.setdefault("NO_PROXY", HOST)
    with tempfile.TemporaryDirectory() as place:
        canvases = Path(place) / "canvases"
        canvases.mkdir()
        for folder in folders:
            for file in canvas_files(Path(folder)):
                shutil.copy(file, canvases)
        with studio_server(canvases) as opened:
            wrong = asyncio.run(look(opened))
            blocked = opened.said.count("BlockingError")
            for file in opened.project.left_out:
                sys.stdout.write(f"out   {file.name}\n")
            count = len(opened.project.canvases)
            took = f"start {opened.start_s:.1f} s"
            sys.stdout.write(f"{count} canvases, {wrong} wrong, {took}, {blocked} blocking calls\n")
    return 1 if wrong or blocked else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
