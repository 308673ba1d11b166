import json

from hypothesis import given
from hypothesis import strategies as st

from ragflow_lg.collected import BLOCK, Collected, append_entry, entries_of
from ragflow_lg.sealed import SealedList


@given(st.integers(0, 3 * BLOCK * BLOCK + 7))
def test_entries_come_back_in_order_and_what_changes_stays_small(count: int) -> None:
    collected: Collected = []
    for number in range(count):
        before = json.dumps(collected)
        longer = append_entry(collected, number)
        assert json.dumps(collected) == before
        collected = longer
    assert entries_of(collected) == list(range(count))
    assert all(len(level) < BLOCK for level in collected)
    assert all(isinstance(block, SealedList) for level in collected[1:] for block in level)


def test_it_goes_on_after_having_been_stored() -> None:
    collected: Collected = []
    for number in range(100):
        collected = append_entry(json.loads(json.dumps(collected)), number)
    assert entries_of(collected) == list(range(100))
