"""Without the folder of an integration, everything else works, and `check` says what to install."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from ragflow_lg.base.extras import find_entry_points
from ragflow_lg.component.integration import GROUP, find_integrations
from ragflow_lg.server.assembly.canvas_needs import OWNERS
from tests.architecture.sources import FOLDERS, ROOT
from tests.fakes.canvas import canvas, node

pytestmark = pytest.mark.slow

IMPORT_ALL = """
import importlib, pkgutil, ragflow_lg
for module in pkgutil.walk_packages(ragflow_lg.__path__, "ragflow_lg."):
    if not module.name.endswith(("__main__", ".langgraph_command")) and ".migrations" not in module.name:
        importlib.import_module(module.name)
"""

USE = """
import asyncio, json, sys
from typer.testing import CliRunner
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.extras import load_named
from ragflow_lg.component.integration import load_store
from ragflow_lg.server.assembly.open_services import open_services
from ragflow_lg.server.cli.entry import app
from ragflow_lg.server.settings import Settings
from tests.conftest import FIXTURES
from tests.harness.cases import read_cases
from tests.harness.conformance import judge

use = json.loads(sys.argv[1])

async def ask():
    async with open_services(Settings()) as services:
        for place in use["places"]:
            try:
                services.of(load_named(place, "")) if ":" in place else load_store(place)
                yield ""
            except SettingsError as error:
                yield str(error)

async def listed(values):
    return [value async for value in values]

def judged():
    for case in list(read_cases(FIXTURES / "conformance"))[use["part"]::8]:
        text = json.dumps(case.data["dsl"])
        if not any(f'": "{name}"' in text for name in use["names"]):
            verdict = judge(case)
            yield verdict.outcome, f"{verdict.case} {verdict.reason}"

print(json.dumps({
    "commands": [CliRunner().invoke(app, command).output for command in use["commands"]],
    "sections": [*Settings.model_fields],
    "answers": asyncio.run(listed(ask())),
    "verdicts": [*judged()],
}))
"""
"""Uses what is left, in one process: commands, services, an eighth of the conformance cases without some components."""
FORMATS = ("DocsGenerator", "PDFGenerator", "HTML")
"""What the integration of documents does besides its component: its other names, and files of a Message."""
NEEDY = {
    "a": node("Retrieval", {"query": "sys.query", "dataset_ids": ["x"], "rerank_id": "r", "use_kg": True}, ["b"]),
    "b": node("Message", {"content": ["x"], "memory_ids": ["x"], "auto_play": True}),
}


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the packages in a folder, and with the entry points of this one."""
    variables = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "XDG_CONFIG_HOME": str(folder)}
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=variables, timeout=250, check=False)


ENTRY_POINTS = find_entry_points(GROUP)


def copy_without(removed: Iterable[str], folder: Path) -> None:
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name, symlinks=True)
    for module in removed:
        shutil.rmtree(folder.joinpath(*module.split(".")))


def test_everything_else_can_be_imported(tmp_path: Path) -> None:
    """That integrations do not import each other is a contract of import-linter."""
    copy_without((each.module for each in ENTRY_POINTS), tmp_path)
    imported = run(tmp_path, "-c", IMPORT_ALL)
    assert imported.returncode == 0, imported.stderr


@pytest.mark.parametrize("entry_point", ENTRY_POINTS, ids=lambda entry_point: entry_point.name)
def test_a_removed_folder_is_only_missed_where_it_is_used(entry_point: EntryPoint, tmp_path: Path) -> None:
    copy_without([entry_point.module], tmp_path)
    others = dict(find_integrations().integrations)
    removed = others.pop(entry_point.name)
    (tmp_path / "own.json").write_text(json.dumps(canvas({"a": node(next(iter(removed.components), "Unknown"))})))
    (tmp_path / "needy.json").write_text(json.dumps(canvas(NEEDY)))
    offered = {service.protocol for other in others.values() for service in other.services}
    places = [each.protocol for each in removed.services if each.protocol[0] != "." and each.protocol not in offered]
    places += removed.stores
    use = {
        "commands": [
            ["--help"],
            ["run", str(ROOT / "examples" / "loop.json"), "Hello", "--model", "demo"],
            ["check", "own.json"],
            ["needs", "needy.json"],
        ],
        "places": places,
        "part": [each.name for each in ENTRY_POINTS].index(entry_point.name) % 8,
        "names": [*removed.components, *(FORMATS if entry_point.name == "documents" else ())],
    }
    used = run(tmp_path, "-c", USE, json.dumps(use))
    assert used.returncode == 0, used.stderr
    found = json.loads(used.stdout)
    listed, answer, checked, needs = found["commands"]
    assert removed.commands.keys().isdisjoint(listed.split())
    assert removed.sections.keys().isdisjoint(found["sections"])
    assert "128 after [" in answer
    assert len(found["verdicts"]) > 8
    assert [verdict for verdict in found["verdicts"] if verdict[0] != "pass"] == []
    assert "component-unknown" in checked
    advice = f"[{','.join(entry_point.extras)}]" if entry_point.extras else "Repair or uninstall the package"
    assert advice in checked
    assert [advice in each for each in found["answers"]] == [True] * len(places), found["answers"]
    assert all(f"missing      {each.label} " in needs for kind, each in removed.needs.items() if kind in OWNERS), needs
