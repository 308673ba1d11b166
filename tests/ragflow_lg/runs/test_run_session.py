import pytest

from ragflow_lg.runs.run_session import EndStatus, ended_record, needed_entries
from ragflow_lg.services.sessions import RunRecord, RunStatus
from tests.fakes.canvas import canvas, plan_of, text

RECORD = RunRecord("r", "s", "s", "c", "hash")


@pytest.mark.parametrize(
    ("end", "status", "is_over"),
    [
        ("succeeded", "succeeded", True),
        ("failed", "failed", True),
        ("waiting", "waiting", False),
        ("drained", "running", False),
        ("running", "cancelled", True),
    ],
)
def test_a_record_says_how_a_run_has_ended(end: EndStatus, status: RunStatus, is_over: bool) -> None:
    record = ended_record(RECORD, end, "why", "c1", 5)
    assert (record.status, record.reason, record.checkpoint, record.updated_ms) == (status, "why", "c1", 5)
    assert record.ended_ms == (5 if is_over else 0)
    assert record.is_cancel_requested == (status == "cancelled")


def test_a_turn_reads_messages_only_if_it_may_replace_one() -> None:
    plan = plan_of(canvas({"a": text()}))
    assert needed_entries(plan, replaces_message=False)["messages"] == 0
    assert "messages" not in needed_entries(plan, replaces_message=True)
