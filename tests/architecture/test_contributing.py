"""The component that ``CONTRIBUTING.md`` shows works as it stands there."""

import importlib
import re
import sys
from pathlib import Path

import pytest

from ragflow_lg.catalog import find_specs
from tests.architecture.sources import ROOT
from tests.fakes.run import run_component


async def test_the_shown_component_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = re.search(r"```python\n(.+?)```", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.DOTALL)
    assert shown
    (tmp_path / "greeter_of_the_page.py").write_text(shown[1], "utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (spec,) = find_specs(importlib.import_module("greeter_of_the_page"))
    result = await run_component(spec, {"name": "{sys.query}"}, globals={"sys.query": "Ada"})
    assert (result.error, result.outputs) == (None, {"greeting": "Hello Ada!"})
