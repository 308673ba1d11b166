"""An integration of another package that is broken, or takes a name, is only missed where it is used."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ragflow_lg.catalog import load_catalog
from ragflow_lg.component import integration
from ragflow_lg.component.integration import CORE_NAMES, Found, find_integrations
from ragflow_lg.models.prompt_texts import PROMPTS, STYLE
from ragflow_lg.server.assembly.canvas_needs import LABELS
from ragflow_lg.server.cli.command_line import _CORE  # pyright: ignore[reportPrivateUsage]
from ragflow_lg.server.settings.settings import CoreSettings
from tests.architecture.sources import ROOT
from tests.fakes.canvas import canvas, node
from tests.harness.rows import read_rows

IMPORT = "from ragflow_lg.component.integration import Command, Integration, NeedKind, Service\n"
MODULE = """
from typing import Protocol
from pydantic import BaseModel

class Needy(BaseModel):
    word: str

class Good(BaseModel): ...

class Words(Protocol): ...

def open_words(settings, services):
    raise ValueError("no words")

async def probe(settings):
    raise ValueError("no probe")
"""

COMPONENT = """
from ragflow_lg.component.decorator import component
from ragflow_lg.component.spec import ComponentOutputs, ComponentParams
from zz.m import Words

class Params(ComponentParams): ...

class Outputs(ComponentOutputs): ...

@component("Ztool", params=Params, outputs=Outputs, description="Ask for words.")
async def ztool(ctx, params):
    ctx.services.of(Words)
    return Outputs()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of an installed package whose integration the test writes."""
    information = tmp_path / "zz_ext-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: zz-ext\nVersion: 1\nProvides-Extra: fast\n")
    (tmp_path / "zz").mkdir()
    (tmp_path / "zz" / "m.py").write_text(MODULE)
    (tmp_path / "zz" / "tool.py").write_text(COMPONENT)
    return tmp_path


def install(folder: Path, code: str, entry_point: str = "zz = zz:INTEGRATION") -> None:
    (folder / "zz" / "__init__.py").write_text(f"{IMPORT}INTEGRATION = {code}\n")
    (folder / "zz_ext-1.dist-info" / "entry_points.txt").write_text(f"[ragflow_lg.integrations]\n{entry_point}\n")


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)]), "XDG_CONFIG_HOME": str(folder)}
    command = [sys.executable, "-m", "ragflow_lg", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=variables, timeout=120, check=False)


def find(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Found:
    for name in [name for name in sys.modules if name.partition(".")[0] == "zz"]:
        del sys.modules[name]
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder)])
    integration._load_all.cache_clear()  # pyright: ignore[reportPrivateUsage] - equal entry points
    return find_integrations()


def test_the_names_of_the_core_are_written_down() -> None:
    integrated = {name for each in find_integrations().integrations.values() for name in each.components}
    built_in = [spec for spec in load_catalog() if spec.name not in integrated]
    own = {name for name in vars(CoreSettings) if not name.startswith(("_", "model_", "settings_"))}
    assert {kind: set(names.split()) for kind, names in CORE_NAMES.items()} == {
        "component": {name.lower() for spec in built_in for name in (spec.name, *spec.aliases)},
        "section": CoreSettings.model_fields.keys() | own,
        "need": LABELS.keys(),
        "command": _CORE.commands.keys(),
        "prompt": {*PROMPTS, STYLE},
    }


@pytest.mark.parametrize(("code", "message"), read_rows("broken_entry_points"))
def test_a_wrong_integration_is_refused_with_its_package(
    folder: Path, monkeypatch: pytest.MonkeyPatch, code: str, message: str
) -> None:
    install(folder, code)
    found = find(folder, monkeypatch)
    assert "zz" not in found.integrations
    assert message in str(found.missing["zz of zz-ext"])
    assert "'zz' of the installed package 'zz-ext'" in str(found.missing["zz of zz-ext"])


def test_commands_work_and_unknown_settings_say_why(folder: Path) -> None:
    install(folder, "Integration(__name__, sections={'zsec': '.nosuch:Z'})")
    assert "lsp " in (listed := run(folder, "--help")).stdout, listed.stderr
    (folder / "settings.toml").write_text("[zsec]\n")
    refused = run(folder, "doctor", "--settings", "settings.toml").stderr
    assert "zsec: unknown setting" in refused
    assert "No module named 'zz.nosuch'" in refused


def test_the_first_owner_of_a_name_keeps_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(folder, "Integration(__name__)", "sql = zz:INTEGRATION")
    found = find(folder, monkeypatch)
    assert found.integrations["sql"].package == "ragflow_lg.integrations.sql"
    assert "integration 'sql' of the integration 'sql' of the installed package 'zz-ext'" in str(
        found.missing["sql of zz-ext"]
    )


def test_an_extra_of_another_package_gets_no_command(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(folder, "5", "zz = zz.gone:INTEGRATION [fast]")
    error = str(find(folder, monkeypatch).missing["zz of zz-ext"])
    assert "No module named 'zz.gone'" in error
    assert "pip install" not in error


def test_what_is_broken_inside_fails_where_it_is_used(folder: Path) -> None:
    install(
        folder,
        "Integration(__name__, components={'Ztool': '.tool', 'Lost': '.gone'}, "
        "services=(Service('.nosuch:Z', '.nosuch:z', 'z'), Service('.m:Words', '.m:open_words', 'words')), "
        "needs={'z': NeedKind('z', 'x', '.nosuch:f')}, probe='.m:probe', sections={'zsec': '.m:Good'})",
    )
    answer = run(
        folder, "run", str(ROOT / "examples" / "loop.json"), "Hello", "--model", "demo", "--record", "tape.jsonl"
    )
    assert answer.returncode == 0, answer.stderr
    parts = {"a": node("Ztool", {}, ["b"]), "b": node("Message", {"content": ["x"]})}
    (folder / "canvas.json").write_text(json.dumps(canvas(parts)))
    used = run(folder, "run", "canvas.json", "Hello")
    assert ".m:open_words of the integration zz cannot be used: ValueError: no words" in used.stderr + used.stdout
    (folder / "settings.toml").write_text("[zsec]\n")
    refused = run(folder, "run", str(ROOT / "examples" / "loop.json"), "Hello", "--settings", "settings.toml")
    assert ".m:open_words of the integration zz cannot be used: ValueError: no words" in refused.stderr
    assert refused.returncode == 2
    found = run(folder, "doctor").stdout
    assert "the integration zz cannot be checked" in found
    assert ".m:probe of the integration zz cannot be used: ValueError: no probe" in found
    assert "Lost cannot be loaded" in found
    assert "the default model" in found
