import asyncio
import time

import pytest

from ragflow_lg.server.observability import loop_watch
from ragflow_lg.server.observability.loop_watch import LoopWatch


async def test_a_late_loop_is_reported_once(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_watch, "RECENT_S", 0.3)
    delays: list[float] = []
    reports: list[bool] = []
    watch = LoopWatch(1.0, delays.append, lambda: reports.append(True))
    async with asyncio.timeout(60), watch.watching():
        while not delays:
            await asyncio.sleep(0.01)
        time.sleep(1.5)
        assert watch.is_late
        while watch.is_late:
            await asyncio.sleep(0.05)
    assert max(delays) > 1.0
    records = [record.getMessage() for record in caplog.records if record.name == loop_watch.__name__]
    assert len(records) == len(reports) >= 1
    assert "the event loop was late by" in records[0]
