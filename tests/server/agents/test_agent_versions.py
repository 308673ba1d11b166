import json
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.catalog import load_catalog
from ragflow_lg.dsl_compiler import check_canvas
from ragflow_lg.server.agents.agent_versions import load_templates, reset_canvas
from tests.server.http.app_server import ECHO


def test_a_reset_removes_the_data_of_turns_only() -> None:
    values: dict[str, tuple[Any, Any]] = {
        "sys.query": ("Hi", ""), "sys.conversation_turns": (3, 0), "sys.files": (["a"], []), "sys.flag": (True, False),
        "sys.map": ({"a": 1}, {}), "sys.nothing": (None, None), "env.set": ("changed", "as declared"),
        "env.number": (4, 0), "env.list": (["a"], []), "env.gone": ("x", ""), "other": (1, 1),
    }  # fmt: skip
    variables = {"set": {"type": "string", "value": "as declared"}, "number": {"type": "number", "value": None}}
    variables |= {"list": {"type": "array<string>"}, "gone": "nonsense"}
    turns: dict[str, Any] = {"history": [["user", "Hi"]], "path": ["begin"], "retrieval": {"chunks": []}, "memory": [1]}
    canvas: dict[str, Any] = {"components": {"begin": {}}, **turns, "variables": variables}
    canvas["globals"] = {name: before for name, (before, _) in values.items()}
    reset = reset_canvas(canvas)
    assert {name: reset[name] for name in turns} == {"history": [], "path": [], "retrieval": [], "memory": []}
    assert reset["globals"] == {name: after for name, (_, after) in values.items()}
    assert canvas["path"] == ["begin"]
    assert reset_canvas({"globals": [], "components": {}})["globals"] == []


@pytest.mark.parametrize("template", load_templates(None), ids=lambda template: template["title"]["en"])
def test_a_built_in_template_can_run(template: dict[str, Any]) -> None:
    plan, diagnostics = check_canvas(template["dsl"], load_catalog())
    assert plan is not None
    wrong = [d for d in diagnostics if d.severity != "info"]
    assert [d for d in wrong if not d.pointer.endswith("/token_value")] == []  # who uses the template sets the token
    assert list(template) == ["id", "title", "description", "canvas_type", "canvas_category", "avatar", "dsl"]


def test_a_folder_adds_canvases_and_other_files_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "my_canvas.json").write_text(json.dumps(ECHO))
    dsl = {**ECHO, "globals": {"env.large": 10**22 + 1}}
    about = {
        "title": "Echo",
        "description": {"de": "Ruft zurück"},
        "canvas_type": "Other",
        "dsl": dsl,
        "compat": "ragflow",
    }
    (tmp_path / "echo.json").write_text(json.dumps(about))
    for name, text in {"a": "{", "b": "[]", "deep": "[" * 10**5, "c": '{"dsl": {}}'}.items():
        (tmp_path / f"{name}.json").write_text(text)
    (tmp_path / "d.json").mkdir()
    rows = load_templates(tmp_path)[len(load_templates(None)) :]
    assert [(row["title"], row["description"], row["canvas_type"]) for row in rows] == [
        ({"en": "Echo"}, {"de": "Ruft zurück"}, "Other"),
        ({"en": "My canvas"}, {"en": ""}, "Recommended"),
    ]
    assert rows[0]["dsl"] == {**dsl, "compat": "ragflow"}
    assert load_templates(tmp_path / "nowhere") == load_templates(None)
