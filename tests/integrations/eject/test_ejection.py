import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from ragflow_lg.base.errors import RunError
from ragflow_lg.integrations.eject.ejection import eject_file
from ragflow_lg.server.settings import load_settings
from tests.server.cli.command import invoke

ROOT = Path(__file__).parents[3]
ROUTER = ROOT / "examples" / "customer_service_router.json"
EXAMPLES = sorted((ROOT / "examples").glob("*.json"))


def test_all_examples_are_clean_for_ruff(tmp_path: Path) -> None:
    for number, path in enumerate(EXAMPLES):
        package = eject_file(path, load_settings(None), name=f"package_{number}")
        for name, text in package.files.items():
            target = tmp_path / f"{number}" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, "utf-8")
    for arguments in (["check"], ["format", "--check"]):
        command = [sys.executable, "-m", "ruff", *arguments, "--no-cache", str(tmp_path)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert result.returncode == 0, result.stdout + result.stderr


def test_a_recording_without_the_turn_is_refused(tmp_path: Path) -> None:
    tape = tmp_path / "run.jsonl"
    invoke("run", ROUTER, "Where is my parcel?", "--model", "demo", "--record", tape)
    with pytest.raises(RunError, match=r"run\.jsonl"):
        eject_file(ROUTER, load_settings(None), recording=tape, query="I want a refund.")


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
    before = {path: path.read_bytes() for path in folder.rglob("*.py")}
    (folder / "customer_service_router" / "nodes" / "left_over.py").write_text("")
    assert invoke("canvas", "eject", ROUTER, "-o", folder, "--recording", tape, "--query", question).exit_code == 0
    assert {path: path.read_bytes() for path in folder.rglob("*.py") if "__pycache__" not in path.parts} == before


def test_a_package_is_not_written_over_other_files(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("x")
    assert "is not empty" in str(invoke("canvas", "eject", ROUTER, "-o", tmp_path).exception)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    without_query = invoke("canvas", "eject", ROUTER, "-o", tmp_path / "x", "--recording", tmp_path / "thesis.txt")
    assert "go together" in without_query.stderr
