import json
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from ragflow_lg.base.diagnostics import Diagnostic, Fix
from ragflow_lg.dsl_compiler.json_spans import JsonSpans, apply_edits, apply_fixes, plan_fix
from tests.harness.rows import each_row

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)
REMOVE = Fix("", "remove")


def step(value: Any, key: str) -> Any:
    return cast("list[Any]", value)[int(key)] if isinstance(value, list) else value[key]


def after(text: str, pointer: str, fix: Fix) -> str:
    return apply_edits(text, plan_fix(JsonSpans(text), pointer, fix))


@given(JSON, st.sampled_from([None, 0, 3]))
def test_every_value_has_its_span(value: Any, indent: int | None) -> None:
    spans = JsonSpans(json.dumps(value, indent=indent, ensure_ascii=False))
    for span in spans.walk():
        pointer = span.pointer
        assert spans.find(pointer) is span
        expected: Any = value
        for key in pointer.split("/")[1:]:
            key = key.replace("~1", "/").replace("~0", "~")
            expected = step(expected, key)
        assert spans.value(span) == expected


@given(JSON, st.data())
def test_a_removed_entry_leaves_the_others(value: Any, data: st.DataObject) -> None:
    text = json.dumps(value, indent=2)
    pointers = [span.pointer for span in JsonSpans(text).walk() if span.pointer]
    if not pointers:
        return
    pointer = data.draw(st.sampled_from(pointers))
    *path, last = [key.replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:]]
    parent: Any = value
    for key in path:
        parent = step(parent, key)
    changed = json.loads(after(text, pointer, REMOVE))
    del parent[int(last) if isinstance(parent, list) else last]
    assert changed == value


@each_row(
    ("text", "pointer", "fix", "expected"),
    [
        ('{ "a" : 1,\n  "b" : 2 }', "/a", REMOVE, '{ "b" : 2 }'),
        ('{ "a" : 1,\n  "b" : 2 }', "/b", REMOVE, '{ "a" : 1 }'),
        ('["x", "y", "x"]', "", Fix("", "remove_items", "x"), '["y"]'),
        ('["x", "y", "x", "z"]', "", Fix("", "remove_items", "x"), '["y", "z"]'),
        ('["x", "x"]', "", Fix("", "remove_items", "x"), "[]"),
        ('{"a": 1}', "/a", Fix("", "replace", "é"), '{"a": "é"}'),
        ('{"a": 1}', "/gone", REMOVE, '{"a": 1}'),
    ],
)
def test_edits_leave_the_rest_as_it_is(text: str, pointer: str, fix: Fix, expected: str) -> None:
    assert after(text, pointer, fix) == expected


def test_overlapping_fixes_are_left_for_the_next_time() -> None:
    found = [Diagnostic("params-unknown", "info", pointer, "", fix=REMOVE) for pointer in ("/a", "/a/b", "/c")]
    text, applied = apply_fixes('{"a": {"b": 1}, "c": 2, "d": 3}', found)
    assert (text, [d.pointer for d in applied]) == ('{"d": 3}', ["/a", "/c"])


def test_the_innermost_value_at_an_offset() -> None:
    text = '{"a": ["x", {"b": 10}]}'
    spans = JsonSpans(text)
    for needle, pointer in (('"x"', "/a/0"), ("10", "/a/1/b"), ('"b"', "/a/1/b"), ('"a"', "/a")):
        span = spans.at(text.index(needle) + 1)
        assert span is not None
        assert span.pointer == pointer
    assert spans.at(len(text) + 1) is None


def test_long_keys_around_many_values_take_little_memory() -> None:
    value: Any = list(range(2_000))
    for _ in range(50):
        value = {"k" * 2_000: value}
    spans = JsonSpans(json.dumps(value))
    assert sum(1 for _ in spans.walk()) == 2_051
    nearest, is_exact = spans.find_nearest("/" + "k" * 2_000 + "/other")
    assert nearest is not None
    assert (len(nearest.path), is_exact) == (1, False)
