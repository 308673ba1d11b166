from __future__ import annotations

from ragflow_lg.server.streaming.journal import gap_error, unknown_run


def test_errors_name_the_lost_events_and_the_next_step() -> None:
    gap = gap_error("r1", 4, 40)
    assert gap.first == 40
    assert "Events 5 to 39 of run r1 have been dropped" in str(gap)
    assert "Continue from event 40" in str(gap)
    assert len(str(unknown_run("x" * 9000, 300))) < 300
