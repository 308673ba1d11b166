import importlib
from pathlib import Path

import pytest

from tests.server.cli.command import ROOT, invoke

ROUTER = ROOT / "examples" / "customer_service_router.json"


def test_a_canvas_becomes_a_package_with_tests_that_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tape, folder = tmp_path / "run.jsonl", tmp_path / "router"
    question = "Where is my parcel?"
    invoke("run", ROUTER, question, "--model", "demo", "--record", tape)
    result = invoke("canvas", "eject", ROUTER, "-o", folder, "--recording", tape, "--query", question)
    assert result.exit_code == 0, result.stderr
    assert "the package customer_service_router" in result.stdout
    for path in (folder, folder / "tests"):
        monkeypatch.syspath_prepend(path)  # pyright: ignore[reportUnknownMemberType] - untyped
    importlib.import_module("test_graph").test_the_canvas_compiles()
    importlib.import_module("test_recordings").test_a_recorded_run_has_the_same_outputs("turn_1")


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("x")
    result = invoke("canvas", "eject", ROUTER, "-o", tmp_path)
    assert result.exit_code != 0
    assert "is not empty" in str(result.exception)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_package_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "router"
    assert invoke("canvas", "eject", ROUTER, "-o", folder).exit_code == 0
    before = {path: path.read_bytes() for path in folder.rglob("*.py")}
    (folder / "customer_service_router" / "nodes" / "left_over.py").write_text("")
    assert invoke("canvas", "eject", ROUTER, "-o", folder).exit_code == 0
    assert {path: path.read_bytes() for path in folder.rglob("*.py")} == before


def test_a_recording_needs_its_query(tmp_path: Path) -> None:
    tape = tmp_path / "run.jsonl"
    tape.write_text("")
    assert "go together" in invoke("canvas", "eject", ROUTER, "-o", tmp_path / "x", "--recording", tape).stderr
