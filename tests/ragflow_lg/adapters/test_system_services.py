import re
import time

from ragflow_lg.adapters.system_services import RandomIds, SystemClock


def test_the_clock_returns_the_system_time() -> None:
    clock = SystemClock()
    assert abs(clock.now() - time.time_ns() / 1e9) < 5
    assert clock.monotonic() <= clock.monotonic()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", clock.local_time())


def test_ids_are_unique_and_seeds_positive() -> None:
    ids = RandomIds()
    run_ids = {ids.run_id() for _ in range(100)}
    assert len(run_ids) == 100
    assert all(re.fullmatch(r"[0-9a-f]{32}", run_id) for run_id in run_ids)
    assert all(0 < ids.seed() < 2**31 for _ in range(1000))
