from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ragflow_lg.server.cli.diagnostics_output import check_quickly
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
def test_the_quick_check_reports_the_same_as_the_full_command_line(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [str(SUPPORT) if word == "SUPPORT" else word for word in words]
    code = check_quickly(arguments)
    quick, full = capsys.readouterr(), invoke("check", *arguments)
    assert (code, quick.out, quick.err) == (full.exit_code, full.stdout, full.stderr)


@pytest.mark.parametrize(
    "words",
    [[], ["--help"], ["a.json", "--settings", "s.toml"], ["a.json", "-o"], ["a.json", "-o", "xml"], ["--outptu=json"]],
)
def test_other_arguments_need_the_full_command_line(words: list[str]) -> None:
    assert check_quickly(words) is None


def test_the_quick_check_loads_no_parser(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom ragflow_lg.server.cli.entry import main\nsys.argv = ['ragflow-lg', 'check', sys.argv[1]]\n"
        "try:\n    main()\nexcept SystemExit:\n    print([name for name in ('typer', 'click') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(SUPPORT)], capture_output=True, text=True, cwd=ROOT, timeout=60, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
