from __future__ import annotations

import os
import subprocess
import sys
import threading

from ragflow_lg.server.studio.langgraph_command import when_closed
from tests.harness.studio import ROOT


def test_the_end_of_the_owner_is_noticed() -> None:
    ours, owners = os.pipe()
    gone = threading.Event()
    when_closed(ours, gone.set)
    os.write(owners, b"x")
    assert not gone.wait(0.05)
    os.close(owners)
    assert gone.wait(10)
    os.close(ours)


def test_it_is_the_command_of_langgraph() -> None:
    command = [sys.executable, "-m", "ragflow_lg.server.studio.langgraph_command", "dev", "--help"]
    said = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    assert "--n-jobs-per-worker" in said.stdout
