import json
from typing import cast

import orjson
from hypothesis import given
from hypothesis import strategies as st

from ragflow_lg.base.append_log import BLOCK, AppendLog, FrozenList, append_entry, read_entries


@given(st.integers(0, 3 * BLOCK * BLOCK + 7))
def test_entries_come_back_in_order_and_what_changes_stays_small(count: int) -> None:
    collected: AppendLog = []
    for number in range(count):
        before = json.dumps(collected)
        longer = append_entry(collected, number)
        assert json.dumps(collected) == before
        collected = longer
    assert read_entries(collected) == list(range(count))
    assert all(len(level) < BLOCK for level in collected)
    assert all(isinstance(block, FrozenList) for level in collected[1:] for block in level)


def test_it_goes_on_after_having_been_stored() -> None:
    collected: AppendLog = []
    for number in range(100):
        collected = append_entry(json.loads(json.dumps(collected)), number)
    assert read_entries(collected) == list(range(100))


def test_what_was_sealed_is_sealed_again_as_it_was() -> None:
    """Else a saver would store the whole list with every entry from then on."""
    collected: AppendLog = []
    for number in range(2 * BLOCK * BLOCK + BLOCK + 3):
        collected = append_entry(collected, number)
    reopened = append_entry(json.loads(json.dumps(collected)), "next")
    kept = append_entry(collected, "next")
    assert reopened == kept
    assert [[_kinds(block) for block in level] for level in reopened] == [[_kinds(b) for b in level] for level in kept]


def test_a_frozen_list_is_json_like_any_list() -> None:
    frozen = FrozenList([1, FrozenList(["a"])])
    assert frozen == [1, ["a"]]
    assert json.loads(json.dumps(frozen)) == orjson.loads(orjson.dumps(frozen)) == [1, ["a"]]
    assert frozen.digest == ""


def _kinds(value: object) -> object:
    return (type(value), [_kinds(entry) for entry in cast("list[object]", value)]) if isinstance(value, list) else None
