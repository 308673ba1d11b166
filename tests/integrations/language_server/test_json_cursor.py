import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ragflow_lg.dsl_compiler.json_spans import JsonSpans
from ragflow_lg.integrations.language_server.name_completion import MAX_DEPTH, find_cursor
from tests.harness.rows import each_row

JSON = st.recursive(
    st.text(max_size=6) | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)


@given(JSON, st.sampled_from([None, 1]), st.text(max_size=10))
def test_the_path_to_each_string_is_found_whatever_follows(value: Any, indent: int | None, rest: str) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    for span in JsonSpans(text).walk():
        if text[span.start] != '"':
            continue
        for offset in range(span.start + 1, span.end):
            cursor = find_cursor(text[:offset] + rest, offset)
            assert cursor is not None
            if cursor.typed is None:
                assert text[:offset].endswith("\\")  # an escape that has only begun
                continue
            assert (cursor.path, cursor.is_key) == (span.path, False)
            assert cursor.typed.offsets[0] == span.start + 1


@each_row(
    ("text", "path", "typed", "is_key"),
    [
        ('{"a": {"b": ["x", "{sys', ("a", "b", "1"), "{sys", False),
        ('{"a": {"b', ("a",), "b", True),
        ('{"a": "x" ', ("a",), None, False),
        ('{"a": "unclosed\n  "b": "y', ("a",), "y", False),
        ("", (), None, False),
        ("}]{", ("",), None, False),
        ('{"a": 1, "b": "', ("b",), "", False),
    ],
)
def test_cursors(text: str, path: tuple[str, ...], typed: str | None, is_key: bool) -> None:
    cursor = find_cursor(text, len(text))
    assert cursor is not None
    assert (cursor.path, cursor.typed.text if cursor.typed else None, cursor.is_key) == (path, typed, is_key)


def test_deep_nesting_is_not_followed() -> None:
    assert find_cursor("[" * (MAX_DEPTH + 1), MAX_DEPTH + 1) is None


@given(st.text(st.sampled_from('{}[],:"\\\n a1'), max_size=40))
def test_nothing_that_is_typed_fails(text: str) -> None:
    for offset in range(len(text) + 1):
        find_cursor(text, offset)
