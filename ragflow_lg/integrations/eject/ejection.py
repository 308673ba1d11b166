"""Ejects the canvas in a file: the package, formatted, with the recorded run that its tests play."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ragflow_lg import __version__
from ragflow_lg.base.errors import CompileError, RunError, SettingsError
from ragflow_lg.base.values import to_json
from ragflow_lg.dsl_compiler import inspect_canvas
from ragflow_lg.integrations.eject.package import EjectedPackage, eject_canvas
from ragflow_lg.server.assembly.canvas_files import CanvasFiles, read_canvas
from ragflow_lg.server.assembly.library import catalog
from ragflow_lg.server.assembly.open_services import open_services
from ragflow_lg.server.assembly.recordings import open_recording

if TYPE_CHECKING:
    from ragflow_lg.component.plan import Plan
    from ragflow_lg.server.settings import Settings

LINE_LENGTH = 100
FORMAT_SECONDS = 60.0


def eject_file(
    file: Path, settings: Settings, *, name: str = "", recording: Path | None = None, query: str = ""
) -> EjectedPackage:
    """Return the package for the canvas in a file, with the recording of a turn that began with the query.

    Raises:
        CompileError: if the canvas has errors, or nodes that cannot be written as code.
        RunError: if a recorded turn fails or does not end.
        CassetteError: if a recording cannot be read.
    """
    canvas = inspect_canvas(read_canvas(file), catalog(), CanvasFiles(lambda: settings, file))
    try:
        plan = canvas.valid_plan()
        name = name or plan.title or file.stem
        package = eject_canvas(canvas, name=name, version=__version__, has_recordings=recording is not None)
    except CompileError as error:
        raise CompileError(error.diagnostics, file=str(file)) from None
    files = dict(format_files(package.files))
    if recording is not None:
        turn = asyncio.run(_play(plan, recording, {"query": query}, settings))
        files["tests/recordings/turn_1.json"] = json.dumps(turn, indent=2, ensure_ascii=False) + "\n"
        files["tests/recordings/turn_1.jsonl"] = recording.read_text("utf-8")
    return replace(package, files=dict(sorted(files.items())))


async def _play(plan: Plan, recording: Path, request: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """Return what the canvas itself answers with a recording."""
    from ragflow_lg.component.turn_context import TurnContext
    from ragflow_lg.dsl_compiler.lower import lower_plan

    canvas = lower_plan(plan)
    with open_recording(replay=recording, plan=plan) as player:
        async with open_services(settings, recording=player) as services:
            state = await canvas.play_inside({**request}, TurnContext(services))  # pyright: ignore[reportArgumentType]
    if state["turn"].get("status") != "succeeded":
        reason = state["turn"].get("error", ["", "", "", "it waits for a form"])[3]
        raise RunError(f"The turn in {str(recording)!r} does not end: {reason}")
    outputs = {id_: entry for id_, entry in state["outputs"].items() if entry}
    answer = state["messages"][-1]["content"]
    return {"request": request, "answer": answer, "outputs": to_json(outputs)}


def format_files(files: Mapping[str, str]) -> Mapping[str, str]:
    """Return the files, the Python ones formatted by Ruff if it is installed.

    Raises:
        SettingsError: if Ruff fails.
    """
    if find_spec("ruff") is None:
        return files
    with tempfile.TemporaryDirectory() as folder:
        write_files(files, Path(folder))
        command = [sys.executable, "-m", "ruff", "format", "--isolated", "--no-cache", "--quiet"]
        command += ["--line-length", str(LINE_LENGTH), folder]
        result = subprocess.run(command, capture_output=True, text=True, timeout=FORMAT_SECONDS, check=False)
        if result.returncode:
            raise SettingsError(f"Ruff cannot format the package: {result.stderr.strip()[:500]}")
        return {path: (Path(folder) / path).read_text("utf-8") for path in files}


def write_files(files: Mapping[str, str], folder: Path) -> None:
    """Write files into a folder, which is created. Other files in it stay."""
    for path, text in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8", newline="\n")


def replace_package(package: EjectedPackage, folder: Path) -> None:
    """Write a package into a folder. The nodes of an earlier one are removed.

    Raises:
        SettingsError: if the folder contains something else, or cannot be written.
    """
    own = folder / package.name / "graph.py"
    if folder.exists() and any(folder.iterdir()) and not own.is_file():
        raise SettingsError(f"{str(folder)!r} is not empty. Choose a new folder.")
    try:
        shutil.rmtree(folder / package.name / "nodes", ignore_errors=True)
        write_files(package.files, folder)
    except OSError as error:
        raise SettingsError(f"{str(folder)!r} cannot be written: {error.strerror}.") from None
