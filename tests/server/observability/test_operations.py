from __future__ import annotations

from ragflow_lg.server.observability.operations import Operations
from ragflow_lg.server.settings import ServerSection


async def test_the_limits_come_from_the_settings() -> None:
    operations = Operations(ServerSection(max_runs=1, requests_per_minute=1, requests_per_minute_address=2))
    await operations.slots.acquire("t")
    assert operations.slots.in_use == 1
    assert [operations.keys.wait_s("k") > 0 for _ in range(2)] == [False, True]
    assert [operations.addresses.wait_s("a") > 0 for _ in range(3)] == [False, False, True]
