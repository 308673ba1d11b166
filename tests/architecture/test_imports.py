"""What is loaded when: the command stays quick only as long as nobody imports a heavy library at the top of a file."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.sources import ROOT

HEAVY = {
    "alembic",
    "fastapi",
    "httpcore",
    "httpx",
    "jinja2",
    "json_repair",
    "jsonschema",
    "langchain_core",
    "langchain_openai",
    "langgraph",
    "langsmith",
    "mcp",
    "numpy",
    "openai",
    "pydantic_settings",
    "redis",
    "selectolax",
    "sqlalchemy",
    "sqlite3",
    "uvicorn",
}

CANVAS: dict[str, Any] = {
    "components": {
        "begin": {"obj": {"component_name": "Begin", "params": {}}, "downstream": ["Message:Hello"]},
        "Message:Hello": {
            "obj": {"component_name": "Message", "params": {"content": ["Hello {sys.query}"]}},
            "upstream": ["begin"],
        },
    }
}


def loaded_by(program: str, *arguments: str) -> set[str]:
    """Run a program of its own and give the top-level modules it loaded."""
    tail = "\nimport json, sys\nsys.stderr.write('\\n' + json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program + tail, *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        check=True,
    )
    return {name.split(".")[0] for name in json.loads(done.stderr.splitlines()[-1])}


@pytest.mark.parametrize(
    "package", ["dsl_compiler", "ragflow_lg.dsl_compiler.passes", "ragflow_lg.catalog", "ragflow_lg.component.spec"]
)
def test_importing_is_light(package: str) -> None:
    assert loaded_by(f"import {package}") & HEAVY == set()


def test_checking_a_canvas_is_light() -> None:
    program = (
        "import json, sys\n"
        "from ragflow_lg.dsl_compiler import check_canvas\n"
        "from ragflow_lg.catalog import load_catalog\n"
        "plan, diagnostics = check_canvas(sys.argv[1], load_catalog())\n"
        "assert plan, diagnostics"
    )
    assert loaded_by(program, json.dumps(CANVAS)) & HEAVY == set()


def test_the_command_check_is_light(tmp_path: Path) -> None:
    file = tmp_path / "canvas.json"
    file.write_text(json.dumps(CANVAS), "utf-8")
    program = (
        "import sys\n"
        "from ragflow_lg.server.cli.entry import main\n"
        "sys.argv = ['ragflow-lg', 'check', sys.argv[1]]\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as stop:\n"
        "    assert not stop.code, stop.code"
    )
    assert loaded_by(program, str(file)) & HEAVY == set()
