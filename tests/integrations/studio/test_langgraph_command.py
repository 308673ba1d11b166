import os
import threading

import pytest

from ragflow_lg.integrations.studio.langgraph_command import call_when_closed

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
