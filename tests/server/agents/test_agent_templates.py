from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.catalog import load_catalog
from ragflow_lg.dsl_compiler import check_canvas
from ragflow_lg.server.agents.agent_templates import load_templates
from tests.server.http.app_server import ECHO


@pytest.mark.parametrize("template", load_templates(None), ids=lambda template: template["title"]["en"])
def test_a_built_in_template_can_run(template: dict[str, Any]) -> None:
    plan, diagnostics = check_canvas(template["dsl"], load_catalog())
    assert plan is not None
    assert list(diagnostics) == []
    assert list(template) == ["id", "title", "description", "canvas_type", "canvas_category", "avatar", "dsl"]


def test_a_folder_adds_canvases_and_other_files_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "my_canvas.json").write_text(json.dumps(ECHO))
    about = {"title": "Echo", "description": {"de": "Ruft zurück"}, "canvas_type": "Other", "dsl": ECHO}
    (tmp_path / "echo.json").write_text(json.dumps(about))
    for name, text in {"a": "{", "b": "[]", "c": '{"dsl": {}}'}.items():
        (tmp_path / f"{name}.json").write_text(text)
    (tmp_path / "d.json").mkdir()
    rows = load_templates(tmp_path)[len(load_templates(None)) :]
    assert [(row["title"], row["description"], row["canvas_type"]) for row in rows] == [
        ({"en": "Echo"}, {"de": "Ruft zurück"}, "Other"),
        ({"en": "My canvas"}, {"en": ""}, "Recommended"),
    ]
    assert load_templates(tmp_path / "nowhere") == load_templates(None)
