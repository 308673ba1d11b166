import asyncio
import time

import pytest

from ragflow_lg.server.observability import loop_watch
from ragflow_lg.server.observability.loop_watch import LoopWatch


def block(seconds: float) -> None:
    time.sleep(seconds)


async def test_a_late_loop_is_reported_once_with_what_it_does(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_watch, "RECENT_S", 0.3)
    reports: list[bool] = []
    watch = LoopWatch(0.3, lambda: reports.append(True))
    async with watch.watching():
        await asyncio.sleep(0.1)
        assert not watch.is_late
        block(1.5)
        assert watch.is_late
        async with asyncio.timeout(20):
            while watch.is_late:
                await asyncio.sleep(0.05)
    assert not watch.is_late
    records = [record.getMessage() for record in caplog.records if record.name == loop_watch.__name__]
    assert len(records) == len(reports) >= 1
    assert "the event loop is late by" in records[0]
    assert "in block" in records[0]
