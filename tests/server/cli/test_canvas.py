import json
from pathlib import Path

from ragflow_lg.base.errors import CompileError
from tests.conftest import FIXTURES
from tests.harness.rows import each_row
from tests.server.cli.command import SUPPORT, invoke, one_line

OLD = FIXTURES / "canvas" / "legacy" / "two_answers.json"


def test_a_drawing_is_text_by_default() -> None:
    drawn = invoke("canvas", "draw", SUPPORT).stdout
    assert drawn == (SUPPORT.parent / "support.ascii.txt").read_text(encoding="utf-8")
    assert invoke("canvas", "draw", SUPPORT, "--format", "mermaid").stdout.startswith("flowchart LR")


@each_row(
    ("name", "kind", "beginning"),
    [
        ("a.svg", None, b"<svg "), ("a.mmd", None, b"flowchart"), ("a.PNG", None, b"\x89PNG"),
        ("a.txt", None, b"Start"), ("a.md", "mermaid", b"flowchart"), ("a.png", "png", b"\x89PNG"),
    ],
)  # fmt: skip
def test_the_file_name_decides_the_format(tmp_path: Path, name: str, kind: str | None, beginning: bytes) -> None:
    result = invoke("canvas", "draw", SUPPORT, "-o", tmp_path / name, *(["--format", kind] if kind else []))
    assert result.exit_code == 0
    assert (tmp_path / name).read_bytes().startswith(beginning)


@each_row(
    ("name", "options", "advice"),
    [
        ("a.doc", [], "'.doc' is not a format of drawings"),
        ("none/a.svg", [], "cannot be written"),
        ("a.svg", ["--format", "mermaid"], "leave out --format"),
        ("a.PNG", ["--format", "svg"], "leave out --format"),
    ],
)
def test_a_drawing_that_cannot_be_written_is_refused(
    tmp_path: Path, name: str, options: list[str], advice: str
) -> None:
    result = invoke("canvas", "draw", SUPPORT, "--output", tmp_path / name, *options)
    assert (result.exit_code, advice in one_line(result.stderr)) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_an_old_canvas_is_upgraded_with_a_report(tmp_path: Path) -> None:
    result = invoke("canvas", "upgrade", OLD)
    assert result.exit_code == 0
    names = {c["obj"]["component_name"] for c in json.loads(result.stdout)["components"].values()}
    assert names == {"Begin", "Categorize", "LLM", "Message", "Switch", "VariableAssigner"}
    assert "generate:help: Generate became LLM." in result.stderr
    assert "4 components were upgraded; 0 of them may behave differently" in result.stderr
    new = tmp_path / "new.json"
    assert invoke("canvas", "upgrade", OLD, "-o", new).exit_code == 0
    assert invoke("check", new).exit_code == 0
    again = invoke("canvas", "upgrade", new)
    assert (json.loads(again.stdout), "Nothing was upgraded" in again.stderr) == (json.loads(new.read_bytes()), True)
    (tmp_path / "bad.json").write_text("{")
    assert isinstance(invoke("canvas", "upgrade", tmp_path / "bad.json").exception, CompileError)


def test_an_old_canvas_runs_and_says_that_it_was_upgraded(tmp_path: Path) -> None:
    store = ("--session", "a", "--checkpoint", f"sqlite:///{tmp_path}/s.db")
    result = invoke("run", OLD, "hello", "--model", "demo", *store)
    assert result.exit_code == 0
    assert "was made before RAGFlow 0.20" in result.stderr
