from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ragflow_lg.server.cli.diagnostics_output import check_as_asked
from tests.server.cli.command import ROOT, SUPPORT, invoke


@pytest.mark.parametrize(
    "words",
    [
        ["SUPPORT"],
        ["SUPPORT", "SUPPORT", "-o", "json"],
        ["--output", "sarif", "SUPPORT"],
        ["missing.json"],
        ["SUPPORT", "missing.json", "--output", "text"],
    ],
)
def test_the_short_way_says_what_the_whole_command_line_says(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    given = [str(SUPPORT) if word == "SUPPORT" else word for word in words]
    code = check_as_asked(given)
    said, whole = capsys.readouterr(), invoke("check", *given)
    assert (code, said.out, said.err) == (whole.exit_code, whole.stdout, whole.stderr)


@pytest.mark.parametrize(
    "words",
    [[], ["--help"], ["a.json", "--settings", "s.toml"], ["a.json", "-o"], ["a.json", "-o", "xml"], ["--outptu=json"]],
)
def test_everything_else_is_for_the_whole_command_line(words: list[str]) -> None:
    assert check_as_asked(words) is None


def test_nothing_is_loaded_that_reads_options(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom ragflow_lg.server.cli.entry import main\nsys.argv = ['ragflow-lg', 'check', sys.argv[1]]\n"
        "try:\n    main()\nexcept SystemExit:\n    print([name for name in ('typer', 'click') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(SUPPORT)], capture_output=True, text=True, cwd=ROOT, timeout=60, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
