"""The extras: every one that ``pyproject.toml`` declares is known, and a missing one is named."""

import importlib.metadata
import sys
import tomllib
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path

import pytest

from ragflow_lg.base import extras
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.extras import EXTRAS, extra_of, install_command, load_entry_point, require
from tests.architecture.sources import ROOT

GROUPS = {"all", "dev", "ragflow-ranking"}
"""Extras that join others, or whose packages are found in another way."""


def test_every_extra_is_declared_and_installed_for_the_tests() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert declared.keys() - GROUPS == EXTRAS.keys()
    assert [module for modules in EXTRAS.values() for module in modules if find_spec(module) is None] == []


def test_the_modules_come_from_the_packages_of_the_extra() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    distributions = importlib.metadata.packages_distributions()
    for extra, modules in EXTRAS.items():
        names = " ".join(declared[extra]).lower().replace("_", "-")
        for module in modules:
            assert any(name.lower().replace("_", "-") in names for name in distributions[module]), (extra, module)


def test_a_missing_extra_is_named_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_spec_without_lxml(name: str) -> object:
        return None if name == "lxml" else object()

    monkeypatch.setattr(extras, "find_spec", find_spec_without_lxml)
    with pytest.raises(SettingsError, match=r"^DuckDuckGo needs lxml\. .*pip install '[^']*\[html\]'$"):
        require("html", "DuckDuckGo")
    require("mcp", "An MCP server")


@pytest.mark.parametrize(
    ("recorded", "command"),
    [
        ('{"url": "file:///srv/my%20checkout", "dir_info": {}}', "pip install '/srv/my checkout[html]'"),
        ('{"url": "https://example.org/ragflow-lg.git"}', "pip install 'ragflow-lg[html]'"),
        ("damaged", "pip install 'ragflow-lg[html]'"),
        (None, "pip install 'ragflow-lg[html]'"),
    ],
)
def test_an_extra_is_installed_from_where_the_package_came(
    recorded: str | None, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Installed:
        def read_text(self, name: str) -> str | None:
            return recorded if name == "direct_url.json" else None

    def find(name: str) -> Installed:
        return Installed()

    monkeypatch.setattr(importlib.metadata, "distribution", find)
    assert install_command("html") == command


@pytest.mark.parametrize(
    ("module", "extra"), [("numpy", "knowledge"), ("redis.asyncio", "redis"), ("json", ""), (None, "")]
)
def test_a_module_leads_to_its_extra(module: str | None, extra: str) -> None:
    assert extra_of(module) == extra


@pytest.mark.parametrize("value", ["no_such_module_here:x", "json:no_such_name", "ends_at_import:x"])
def test_the_error_names_the_entry_point_its_package_and_its_group(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ends_at_import.py").write_text("raise SystemExit('no\\nlicence')")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    message = r"'bad' of the installed package '\?' \(.*, group g\) cannot be loaded: \w+: "
    with pytest.raises(SettingsError, match=message):
        load_entry_point(EntryPoint("bad", value, "g"), "tool")
