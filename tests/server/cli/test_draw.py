from pathlib import Path

import pytest

from ragflow_lg.base.errors import CompileError
from ragflow_lg.server.assembly.canvas_files import canvas_files
from tests.harness.rows import each_row
from tests.server.cli.command import ROOT, SUPPORT, invoke, one_line


def test_the_default_is_text() -> None:
    drawn = invoke("canvas", "draw", SUPPORT).stdout
    assert drawn == (SUPPORT.parent / "support.ascii.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(("kind", "beginning"), [("mermaid", "flowchart LR"), ("svg", "<svg "), ("ascii", "Start")])
def test_each_format_by_name(kind: str, beginning: str) -> None:
    assert invoke("canvas", "draw", SUPPORT, "--format", kind).stdout.startswith(beginning)


@pytest.mark.parametrize(
    ("name", "beginning"), [("a.svg", b"<svg "), ("a.mmd", b"flowchart"), ("a.PNG", b"\x89PNG"), ("a.txt", b"Start")]
)
def test_the_file_name_decides_the_format(tmp_path: Path, name: str, beginning: bytes) -> None:
    result = invoke("canvas", "draw", SUPPORT, "-o", tmp_path / name)
    assert result.exit_code == 0
    assert (tmp_path / name).read_bytes().startswith(beginning)


def test_an_unknown_suffix_is_refused(tmp_path: Path) -> None:
    result = invoke("canvas", "draw", SUPPORT, "-o", tmp_path / "a.doc")
    assert result.exit_code == 2
    assert "'.doc' is not a format of drawings" in result.stderr
    assert not (tmp_path / "a.doc").exists()


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    result = invoke("canvas", "draw", SUPPORT, "-o", tmp_path / "none" / "a.svg")
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr


def test_an_invalid_canvas_is_not_drawn(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text("{}")
    assert isinstance(invoke("canvas", "draw", path).exception, CompileError)


@each_row("example", canvas_files(ROOT / "examples"))
def test_every_example_is_drawn(example: Path) -> None:
    for kind in ("mermaid", "svg", "ascii"):
        assert invoke("canvas", "draw", example, "--format", kind).exit_code == 0


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [("mermaid", "a.svg", 2), ("svg", "a.PNG", 2), ("mermaid", "a.md", 0), ("png", "a.png", 0)],
)
def test_the_suffix_of_another_format_is_refused(tmp_path: Path, kind: str, name: str, code: int) -> None:
    drawn = invoke("canvas", "draw", SUPPORT, "--format", kind, "--output", tmp_path / name)
    assert drawn.exit_code == code
    assert (tmp_path / name).is_file() == (code == 0)
    assert ("leave out --format" in one_line(drawn.stderr)) == (code == 2)
