"""The component and the tool that ``CONTRIBUTING.md`` shows work as they stand there."""

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.catalog import find_specs
from tests.architecture.sources import ROOT
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
