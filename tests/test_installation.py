"""What an installation brings: one import package, which does not meet the modules of a user's own program."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
FILES = ("pyproject.toml", "setup.py", "README.md", "LICENSE")
FOLDERS = ("ragflow_lg", "checkpoints", "dsl_compiler", "server")
BUILD = "from setuptools import build_meta as build; print(build.build_{kind}({folder!r}))"

PROGRAM = """
import importlib, pkgutil, sys
import checkpoints, dsl_compiler, server, tests
import ragflow_lg

assert {checkpoints.mine, dsl_compiler.mine, server.mine, tests.mine} == {True}
names = [module.name for module in pkgutil.walk_packages(ragflow_lg.__path__, "ragflow_lg.")]
for name in names:
    if not name.endswith("__main__"):
        importlib.import_module(name)
wrong = [name for name in sys.modules if name.split(".")[0] in ("checkpoints", "dsl_compiler", "server", "tests")]
assert wrong == ["checkpoints", "dsl_compiler", "server", "tests"], wrong
print(len(names), ragflow_lg.__file__)
"""


def build(kind: str, source: Path, folder: Path) -> Path:
    """Build an sdist or a wheel of a source tree with the installed setuptools; return the file."""
    done = subprocess.run(
        [sys.executable, "-c", BUILD.format(kind=kind, folder=str(folder))],
        cwd=source,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    return folder / done.stdout.split()[-1]


@pytest.fixture(scope="module")
def source_archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkout")
    for name in FILES:
        shutil.copy(ROOT / name, folder / name)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    return build("sdist", folder, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def wheel(source_archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(source_archive) as archive:
        archive.extractall(folder, filter="data")
    (unpacked,) = folder.iterdir()
    return build("wheel", unpacked, tmp_path_factory.mktemp("wheel"))


def test_the_source_archive_holds_files_in_place_of_links(source_archive: Path) -> None:
    with tarfile.open(source_archive) as archive:
        members = archive.getmembers()
    assert [member.name for member in members if member.issym() or member.islnk()] == []
    names = {member.name.partition("/")[2] for member in members}
    assert {"ragflow_lg/server/http/app.py", "ragflow_lg/checkpoints/steps/saver.py", "setup.py"} <= names


def test_the_wheel_brings_one_package_and_its_data(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"ragflow_lg"}
    sources = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    assert sum(name.endswith(".py") for name in names) == len(sources)
    assert {"ragflow_lg/py.typed", "ragflow_lg/server/agents/templates/chat_assistant.json"} <= set(names)


def test_a_program_keeps_its_own_modules_beside_it(wheel: Path, tmp_path: Path) -> None:
    site, program = tmp_path / "site", tmp_path / "program"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    program.mkdir()
    (program / "server.py").write_text("mine = True\n", "utf-8")
    for name in ("checkpoints", "dsl_compiler", "tests"):
        (program / name).mkdir()
        (program / name / "__init__.py").write_text("mine = True\n", "utf-8")
    (program / "main.py").write_text(PROGRAM, "utf-8")
    # A folder of PYTHONPATH is not searched for the .pth file of the editable installation.
    paths = os.pathsep.join([str(site), sysconfig.get_paths()["purelib"]])
    base = getattr(sys, "_base_executable", sys.executable)
    done = subprocess.run(
        [base, "-W", "ignore", "main.py"],
        cwd=program,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    assert str(site) in done.stdout


def test_a_checkout_without_links_stops_the_build(tmp_path: Path) -> None:
    for name in FILES:
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "ragflow_lg").mkdir()
    for name in FOLDERS[1:]:
        (tmp_path / "ragflow_lg" / name).write_text(f"../{name}", "utf-8")  # what git writes for a link on Windows
    done = subprocess.run(
        [sys.executable, "setup.py", "--version"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "this checkout has no symbolic links" in done.stderr
    assert "core.symlinks" in done.stderr
