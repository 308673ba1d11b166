"""A component of another package: built, installed beside ours, found by its entry point, and run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT

PACKAGE = ROOT / "tests" / "fixtures" / "outside_component"
CANVAS = PACKAGE / "canvas.json"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the package into a folder of its own, without network; a copy, since building leaves files behind."""
    copy, target = tmp_path_factory.mktemp("source") / "package", tmp_path_factory.mktemp("installed")
    shutil.copytree(PACKAGE, copy)
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "--quiet"]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, "--target", str(target), str(copy)], check=True, timeout=110
    )
    return target


def ragflow_lg(*arguments: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command, with a further folder of installed packages."""
    folders = [str(ROOT), *([str(path)] if path else [])]
    return subprocess.run(
        [sys.executable, "-c", "from server.cli.app import main; main()", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_the_command_lists_it(installed: Path) -> None:
    listed = ragflow_lg("components", "Shout", "--output", "json", path=installed)
    assert listed.returncode == 0, listed.stderr
    assert json.loads(listed.stdout)["description"] == "Say a text loudly."


def test_a_canvas_with_it_is_fine(installed: Path) -> None:
    checked = ragflow_lg("check", str(CANVAS), path=installed)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_it_runs_by_its_alias(installed: Path) -> None:
    run = ragflow_lg("run", str(CANVAS), "hello", "--events", "json", "--model", "demo", path=installed)
    assert run.returncode == 0, run.stderr
    frames = [json.loads(line) for line in run.stdout.splitlines()]
    answer = "".join(frame["data"]["content"] for frame in frames if frame["event"] == "message")
    assert answer == "I said HELLO!!"


def test_without_the_package_the_canvas_is_refused() -> None:
    checked = ragflow_lg("check", str(CANVAS))
    assert checked.returncode != 0
    assert "component-unknown" in checked.stdout
