import json
from pathlib import Path

from ragflow_lg.base.errors import CompileError
from tests.conftest import FIXTURES
from tests.server.cli.command import invoke

OLD = FIXTURES / "canvas" / "legacy" / "two_answers.json"


def test_the_new_canvas_is_printed_and_the_report_goes_to_standard_error() -> None:
    result = invoke("canvas", "upgrade", OLD)
    assert result.exit_code == 0
    names = {c["obj"]["component_name"] for c in json.loads(result.stdout)["components"].values()}
    assert names == {"Begin", "Categorize", "LLM", "Message", "Switch", "VariableAssigner"}
    assert "generate:help: Generate became LLM." in result.stderr
    assert "4 components were upgraded; 0 of them may behave differently" in result.stderr


def test_a_file_is_written_and_can_be_checked(tmp_path: Path) -> None:
    assert invoke("canvas", "upgrade", OLD, "-o", tmp_path / "new.json").exit_code == 0
    assert invoke("check", tmp_path / "new.json").exit_code == 0


def test_the_report_as_json() -> None:
    changes = json.loads(invoke("canvas", "upgrade", OLD, "--report", "json").stderr)
    assert {"id", "component", "became", "note", "difference"} == set(changes[0])
    assert {change["component"] for change in changes} == {"Answer", "Generate"}


def test_the_bytes_are_the_same_each_time() -> None:
    assert invoke("canvas", "upgrade", OLD).stdout == invoke("canvas", "upgrade", OLD).stdout


def test_a_canvas_of_today_is_left_alone(tmp_path: Path) -> None:
    new = tmp_path / "new.json"
    invoke("canvas", "upgrade", OLD, "-o", new)
    result = invoke("canvas", "upgrade", new)
    assert json.loads(result.stdout) == json.loads(new.read_bytes())
    assert "Nothing was upgraded" in result.stderr


def test_a_broken_file_and_an_unwritable_one_are_errors(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    assert isinstance(invoke("canvas", "upgrade", tmp_path / "bad.json").exception, CompileError)
    assert "cannot be written" in invoke("canvas", "upgrade", OLD, "-o", tmp_path / "none" / "a.json").stderr


def test_an_old_canvas_runs_and_says_that_it_was_upgraded(tmp_path: Path) -> None:
    result = invoke(
        "run", OLD, "hello", "--model", "demo", "--session", "a", "--checkpoint", f"sqlite:///{tmp_path}/s.db"
    )
    assert result.exit_code == 0
    assert "was made before RAGFlow 0.20" in result.stderr
