from __future__ import annotations

from ragflow_lg.server.streaming.journal import gap_error, unknown_run


def test_what_is_told_says_what_is_gone_and_what_to_do() -> None:
    gap = gap_error("r1", 4, 40)
    assert gap.first == 40
    assert "Events 5 to 39 of run r1 have been dropped" in str(gap)
    assert "Read on from event 40" in str(gap)
    assert len(str(unknown_run("x" * 9000, 300))) < 300
