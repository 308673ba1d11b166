"""Values within an address."""

from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragflow_lg.components.invoke import escape_value
from tests.harness.rows import each_row


@each_row(
    ("before", "value", "after", "expected"),
    [
        *[("", "https://h.test/a?b=1&c=2#d", "", "https://h.test/a?b=1&c=2#d"), ("  ", "h.test/a", "/b", "h.test/a")],
        *[
            ("https://", "h.test/a?b=c", "", "h.test/a?b=c"),
            ("https://", "h.test:80/a?b#c", "/d", "h.test:80/a%3Fb%23c"),
        ],
        *[("https://", "evil.test?", "/a", "evil.test%3F"), ("https://api.", "x@evil.test#", "", "x%40evil.test%23")],
        *[("https://", "münchen.test", "/a", "münchen.test"), ("https://user:", "p@ss", "@h.test/", "p%40ss")],
        *[("https://h.test", "/a b/c", "", "/a%20b/c"), ("https://h.test/", "a/b:c@d=e,f+g&h", "", "a/b:c@d=e,f+g&h")],
        *[("h.test/", "What is C#?", "", "What%20is%20C%23%3F"), ("h.test/", "100%", "", "100%25")],
        *[("h.test/", "a%20b", "/c", "a%20b"), ("h.test/", "äö", "", "%C3%A4%C3%B6")],
        *[
            ("h.test/?q=", "a b&c=ü#d", "", "a%20b%26c=%C3%BC%23d"),
            ("h.test/?q=", "C++; 50%", "&b=1", "C%2B%2B%3B%2050%25"),
        ],
        *[("h.test/?q=a ", "b&c", "", "b%26c"), ("h.test/?a=1&b=", "x?y/z", "", "x?y/z")],
        *[("h.test/?u=", "https://x.test/?a=1&b=2", "", "https://x.test/?a=1%26b=2")],
        *[("h.test/?", "a=1&b=2 3#c", "", "a=1&b=2%203%23c"), ("h.test/?x=1&", "a=1&b=2", "&y=3", "a=1&b=2")],
        *[("h.test/?", "a&b", "=1", "a%26b"), ("h.test/?a", "b&c", "=1", "b%26c")],
        ("h.test/#/", "a b", "", "a b"),
        ("h.test/", "\ud800", "", "%3F"),
    ],
)
def test_a_value_is_escaped_for_its_place(before: str, value: str, after: str, expected: str) -> None:
    assert escape_value(before, value, after) == expected


@pytest.mark.parametrize(
    ("before", "value", "after"), [("h.test/a/", "../b", ""), ("h.test/a/.", ".", "/b"), ("h.test/a", "/..", "/b")]
)
def test_a_value_cannot_leave_its_place_in_a_path(before: str, value: str, after: str) -> None:
    with pytest.raises(ValueError, match=r"'\.\.'"):
        escape_value(before, value, after)


@given(
    st.text().filter(
        lambda text: (
            "%" not in text and not any("\ud800" <= char <= "\udfff" for char in text) and ".." not in text.split("/")
        )
    )
)
def test_a_value_changes_no_other_part(value: str) -> None:
    parts = urlsplit("https://h.test/p/" + escape_value("https://h.test/p/", value, "/end?a=1") + "/end?a=1")
    assert (parts.netloc, unquote(parts.path), parts.query, parts.fragment) == ("h.test", f"/p/{value}/end", "a=1", "")
    parts = urlsplit("https://h.test/p?q=" + escape_value("https://h.test/p?q=", value, "&b=2") + "&b=2")
    assert parse_qsl(parts.query, keep_blank_values=True) == [("q", value), ("b", "2")]
    assert (parts.path, parts.fragment) == ("/p", "")
