import json
from typing import cast

import orjson
from hypothesis import given
from hypothesis import strategies as st

from ragflow_lg.base.append_log import BLOCK, AppendLog, FrozenList, append_entry, read_entries


@given(st.integers(0, 3 * BLOCK * BLOCK + 7))
def test_entries_keep_their_order_and_the_changing_part_stays_small(count: int) -> None:
    log: AppendLog = []
    for number in range(count):
        before = json.dumps(log)
        longer = append_entry(log, number)
        assert json.dumps(log) == before
        log = longer
    assert read_entries(log) == list(range(count))
    assert all(len(level) < BLOCK for level in log)
    assert all(isinstance(block, FrozenList) for level in log[1:] for block in level)


def test_a_stored_log_can_be_extended() -> None:
    log: AppendLog = []
    for number in range(100):
        log = append_entry(json.loads(json.dumps(log)), number)
    assert read_entries(log) == list(range(100))


def test_blocks_of_a_stored_log_are_frozen_again() -> None:
    """Otherwise a saver would store the whole list with every further entry."""
    log: AppendLog = []
    for number in range(2 * BLOCK * BLOCK + BLOCK + 3):
        log = append_entry(log, number)
    reopened = append_entry(json.loads(json.dumps(log)), "next")
    expected = append_entry(log, "next")
    assert reopened == expected
    assert _kinds(reopened) == _kinds(expected)


def test_a_frozen_list_is_json_like_any_list() -> None:
    frozen = FrozenList([1, FrozenList(["a"])])
    assert frozen == [1, ["a"]]
    assert json.loads(json.dumps(frozen)) == orjson.loads(orjson.dumps(frozen)) == [1, ["a"]]
    assert frozen.digest == ""


def _kinds(value: object) -> object:
    if not isinstance(value, list):
        return None
    return type(cast("object", value)), [_kinds(entry) for entry in cast("list[object]", value)]
