"""Running the command in this process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from ragflow_lg.server.cli.command_line import command_line

ROOT = Path(__file__).parents[3]
SUPPORT = ROOT / "tests" / "fixtures" / "drawings" / "support.json"


def invoke(*arguments: str | Path, text: str = "", environment: Mapping[str, str] | None = None) -> Result:
    """Run ``ragflow-lg ARGUMENTS``; errors that `main` would report are in ``exception``."""
    words = [str(a) for a in arguments]
    return CliRunner().invoke(command_line(words), words, input=text, env=dict(environment or {}))


def frames(result: Result) -> list[dict[str, Any]]:
    """Give the events that were written."""
    return [json.loads(line) for line in result.stdout.splitlines()]


def write_canvas(path: Path, *nodes: tuple[str, str, dict[str, Any], list[str]]) -> Path:
    """Write a canvas of ``(id, component, params, downstream)``; Begin is the first."""
    components = {
        id_: {"obj": {"component_name": name, "params": params}, "downstream": downstream}
        for id_, name, params, downstream in nodes
    }
    path.write_text(json.dumps({"components": components}), encoding="utf-8")
    return path
