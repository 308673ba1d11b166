import asyncio
import os
import sys

import pytest

from ragflow_lg.base.computing_threads import PRIORITY
from ragflow_lg.server.http.edge.uvicorn_server import lower_threads


def _own_priority() -> int:
    return os.getpriority(os.PRIO_PROCESS, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="others have no priorities of threads")
def test_threads_of_a_server_have_a_lower_priority_than_its_event_loop() -> None:
    with asyncio.Runner() as runner:
        lower_threads(runner.get_loop())
        own = _own_priority()

        assert runner.run(asyncio.to_thread(_own_priority)) == min(own + PRIORITY, 19)
        assert _own_priority() == own
