"""The environment that ``make`` creates, without an index: it has a pip, and progress is readable in a log."""

import subprocess
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT, load_script

pytestmark = pytest.mark.slow


def test_a_new_environment_has_a_pip(tmp_path: Path) -> None:
    folder = tmp_path / "environment"
    load_script(ROOT / ".ci" / "set_up.py").create_environment(folder)
    done = subprocess.run(
        [folder / "bin" / "python", "-m", "pip", "list"], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "pip " in done.stdout


def test_a_log_gets_few_lines_of_progress(capsys: pytest.CaptureFixture[str]) -> None:
    show_count = load_script(ROOT / ".ci" / "set_up.py").show_count
    for found in range(1, 60):
        show_count(found)
    show_count(59, ", installing …\n")
    shown = capsys.readouterr().out
    assert shown.split("\n") == [
        "   25 packages found",
        "   50 packages found",
        "   59 packages found, installing …",
        "",
    ]


def test_another_python_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.version_info", (3, 14, 0))
    with pytest.raises(SystemExit, match=r"needs Python 3\.11 to 3\.13"):
        load_script(ROOT / ".ci" / "set_up.py").main()
