"""What is loaded when: the command stays quick only as long as nobody imports a heavy library at the top of a file."""

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.server.cli.command_line import find_commands
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
    names = "sorted(name for name, module in sys.modules.items() if module is not None)"  # None: cannot be imported
    tail = f"\nimport json, sys\nsys.stderr.write('\\n' + json.dumps({names}))"
    done = subprocess.run(
        [sys.executable, "-c", program + tail, *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        check=True,
    )
    return {name.split(".")[0] for name in json.loads(done.stderr.splitlines()[-1])}


def test_importing_is_light() -> None:
    """One process imports all, as starting Python takes longer: what is light together is light alone."""
    packages = "dsl_compiler", "ragflow_lg.dsl_compiler.passes", "ragflow_lg.catalog", "ragflow_lg.component.spec"
    assert loaded_by(f"import {', '.join(packages)}") & HEAVY == set()


def loaded_by_command(*words: str) -> set[str]:
    """Run ``ragflow-lg WORDS``, which must succeed, and give the top-level modules it loaded."""
    program = (
        "import sys\n"
        "from ragflow_lg.server.cli.entry import main\n"
        "sys.argv[0] = 'ragflow-lg'\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as stop:\n"
        "    assert not stop.code, stop.code"
    )
    return loaded_by(program, *words)


HELP_OF_EACH = """
import sys
from ragflow_lg.server.cli.entry import main
for words in [["--version"], ["--help"], *([*name.split(), "--help"] for name in {names!r})]:
    sys.argv = ["ragflow-lg", *words]
    try:
        main()
    except SystemExit as stop:
        assert not stop.code, (words, stop.code)
    found = {{name.split(".")[0] for name, module in sys.modules.items() if module is not None}} & {heavy!r}
    assert not found, (words, found)
"""


def test_the_version_and_all_help_are_light() -> None:
    assert loaded_by(HELP_OF_EACH.format(heavy=HEAVY, names=sorted(find_commands()))) & HEAVY == set()


def test_the_command_check_is_light(tmp_path: Path) -> None:
    file = tmp_path / "canvas.json"
    file.write_text(json.dumps({**CANVAS, "compat": {"all": False}}), "utf-8")
    assert loaded_by_command("check", str(file)) & HEAVY == set()


def test_checking_a_canvas_with_models_loads_only_the_settings() -> None:
    file = ROOT / "examples" / "travel_guide.json"
    assert loaded_by_command("check", str(file)) & HEAVY == {"pydantic_settings"}


def test_a_server_starts_before_it_loads_the_engine_and_the_model_client() -> None:
    program = "import ragflow_lg.server.http.app\nimport ragflow_lg.server.assembly.app_state"
    assert loaded_by(program) & {"alembic", "httpx", "jwt", "langchain_openai", "langsmith", "numpy", "openai"} == set()


@pytest.mark.parametrize("package", ["ragflow_lg.checkpoints", "ragflow_lg.server.settings"])
def test_packages_load_their_names_on_first_use(package: str) -> None:
    assert loaded_by(f"import {package}") & (HEAVY | {"pydantic"}) == set()
    names = import_module(package).__all__
    assert names
    assert all(getattr(import_module(package), name).__name__ == name for name in names)
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'Missing'"):
        _ = import_module(package).Missing
