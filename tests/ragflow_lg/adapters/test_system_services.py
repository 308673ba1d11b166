"""Clock and ids of the machine."""

from __future__ import annotations

import re
import time

from ragflow_lg.adapters.system_services import RandomIds, SystemClock


def test_clock():
    clock = SystemClock()
    assert abs(clock.now() - time.time_ns() / 1e9) < 5
    assert clock.monotonic() <= clock.monotonic()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", clock.local_time())


def test_ids():
    ids = RandomIds()
    drawn = {ids.run_id() for _ in range(100)}
    assert len(drawn) == 100
    assert all(re.fullmatch(r"[0-9a-f]{32}", run_id) for run_id in drawn)
    assert all(0 < ids.seed() < 2**31 for _ in range(1000))
