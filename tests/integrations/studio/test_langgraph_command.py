import os
import subprocess
import sys
import threading

import pytest

from ragflow_lg.integrations.studio.langgraph_command import call_when_closed
from tests.harness.studio import ROOT

pytestmark = pytest.mark.slow


def test_the_end_of_the_parent_is_noticed() -> None:
    ours, theirs = os.pipe()
    closed = threading.Event()
    call_when_closed(ours, closed.set)
    os.write(theirs, b"x")
    assert not closed.wait(0.05)
    os.close(theirs)
    assert closed.wait(10)
    os.close(ours)


def test_it_runs_langgraphs_command() -> None:
    command = [sys.executable, "-m", "ragflow_lg.integrations.studio.langgraph_command", "dev", "--help"]
    help_ = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    assert "--n-jobs-per-worker" in help_.stdout
