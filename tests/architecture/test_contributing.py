"""What ``CONTRIBUTING.md`` shows works as it stands there."""

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.catalog import find_specs
from tests.architecture.sources import ROOT
from tests.fakes.canvas import canvas, node
from tests.fakes.run import run_component


@pytest.mark.parametrize(
    ("number", "params", "outputs"),
    [
        (0, {"name": "{sys.query}"}, {"greeting": "Hello Ada!"}),
        (1, {"query": "{sys.query}", "times": 2}, {"formalized_content": "Ada Ada"}),
    ],
)
async def test_a_shown_component_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, params: dict[str, Any], outputs: dict[str, Any]
) -> None:
    shown = re.findall(r"(?s)```python\n(.+?)```", (ROOT / "CONTRIBUTING.md").read_text("utf-8"))
    (tmp_path / f"shown_component_{number}.py").write_text(shown[number], "utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (spec,) = find_specs(importlib.import_module(f"shown_component_{number}"))
    result = await run_component(spec, params, globals={"sys.query": "Ada"})
    assert result.error is None
    assert {name: result.outputs[name] for name in outputs} == outputs


def test_the_shown_integration_works(tmp_path: Path) -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    package, information = tmp_path / "greetings", tmp_path / "greetings-1.dist-info"
    package.mkdir()
    information.mkdir()
    for name, code in zip(
        ("__init__", "words", "welcome"), re.findall(r"(?s)```python\n(.+?)```", text)[2:], strict=True
    ):
        (package / f"{name}.py").write_text(code, "utf-8")
    declared = re.findall(r"(?s)```toml\n(.+?)```", text)[0]
    (information / "entry_points.txt").write_text(declared.replace("project.entry-points.", "").replace('"', ""))
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: greetings\nVersion: 1\n")
    (tmp_path / "settings.toml").write_text('[greetings]\nword = "Good evening"\n')
    parts = {"a": node("Welcome", {"name": "{sys.query}"}, ["b"]), "b": node("Message", {"content": ["{a@greeting}"]})}
    (tmp_path / "canvas.json").write_text(json.dumps(canvas(parts)))
    command = [sys.executable, "-m", "ragflow_lg", "run", "canvas.json", "Ada", "--settings", "settings.toml"]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])}
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False, timeout=60)
    assert "Good evening Ada!" in done.stdout, done.stderr
