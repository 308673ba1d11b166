import subprocess
from pathlib import Path

from tests.harness.loaded_python import ROOT, python_command

FAILING = """
import gc

class Left:
    def __init__(self):
        self.circle = self

    def __del__(self):
        Left()  # something is left at every time
        raise ValueError("left behind")

def test_fails():
    Left()
    gc.set_threshold(1000, 1, 1)
    assert [1] == [2]
"""
RUN = """
import pytest, sys
from tests.harness import failure_reports
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-c", "/dev/null", *sys.argv[1:]], [failure_reports]))
"""


def test_a_finaliser_that_fails_while_a_failure_is_shown_does_not_end_the_run(tmp_path: Path) -> None:
    file = tmp_path / "test_failing.py"
    file.write_text(FAILING + "x = [1, 2, (3, 4)]\n" * 300 + "\ndef test_passes():\n    pass\n", "utf-8")
    done = subprocess.run(
        python_command("-c", RUN, str(file), "-p", "no:randomly", "-p", "no:xdist"),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "INTERNALERROR" not in done.stdout + done.stderr
    assert "assert [1] == [2]" in done.stdout
    assert "1 failed, 1 passed" in done.stdout
