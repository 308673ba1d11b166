"""JSON from outside: what is refused before anything is built from it, and what the rest becomes."""

import json
from typing import Any

import pytest

from ragflow_lg.base.errors import ForeignJsonError
from ragflow_lg.base.foreign_json import read_foreign_json
from ragflow_lg.base.json_scanner import JsonLimits, parse_foreign_json
from tests.harness.rows import each_row

LIMITS = JsonLimits(16 * 1024 * 1024)
MANY = 1_000_000


@each_row(
    ("start", "part", "count", "end", "problem"),
    [
        ("[", "[],", MANY, "1]", "more than 200,000 entries"),
        ('{"results": [', "{},", MANY, "1]}", "more than 200,000 entries"),
        ("{", '"a":[],', MANY, '"b":1}', "more than 200,000 entries"),
        ("[", "1,", MANY, "1]", "more than 200,000 entries"),
        ("[", '"",', MANY, "1]", "more than 200,000 entries"),
        ('["\\"\\",["', "[],", MANY, "", "more than 200,000 entries"),
        ("", "[", MANY, "", r"nested more than 100 levels|more than 200,000"),
        ("", '{"a":', 200, "1" + "}" * 200, "nested more than 100 levels"),
        ('"', "x", 17 * MANY, '"', "more than 16,777,216 bytes"),
    ],
)
def test_a_text_that_exceeds_a_limit_is_refused_before_anything_is_built(
    start: str, part: str, count: int, end: str, problem: str
) -> None:
    with pytest.raises(ForeignJsonError, match=problem):
        read_foreign_json(start + part * count + end, LIMITS)


@each_row(
    "text",
    ["", "nonsense", "{", '{"a": 1} x', "9" * 1_000_000, "-" + "9" * 5000, b"\xff", b'{"a": "\xc3"}', "[1,]", "['a']"],
)
def test_what_is_not_json_is_an_error(text: str | bytes) -> None:
    with pytest.raises(ForeignJsonError, match="is not valid"):
        read_foreign_json(text, LIMITS)


PLAIN: list[tuple[str | bytes, Any]] = [
    ('\ufeff{"a": 1}', {"a": 1}),
    (b'\xef\xbb\xbf{"a": 1}', {"a": 1}),
    ('{"a": 1, "a": 2}', {"a": 2}),
    ("[NaN, Infinity, -Infinity, 1e999]", [None, None, None, None]),
    ('["\\ud83d\\ude00", "\\ud83d"]', ["\U0001f600", "\ufffd"]),
    (f"[{'1' * 30}]", ["1" * 30]),
    ('"' + "\\u0041" * 20_000 + '"', "A" * 20_000),
    ("[" + "[]," * 90_000 + "[]]", [[] for _ in range(90_001)]),
]


@each_row(("text", "value"), PLAIN)
def test_the_rest_becomes_plain_json(text: str | bytes, value: Any) -> None:
    assert read_foreign_json(text, LIMITS) == value


def test_a_value_that_cannot_be_stored_is_an_error() -> None:
    with pytest.raises(ForeignJsonError, match="cannot be used: A value is nested deeper than 64 levels"):
        read_foreign_json("[" * 70 + "]" * 70, LIMITS)
    with pytest.raises(ForeignJsonError, match="cannot be used: A value has more than 100,000 entries"):
        read_foreign_json(json.dumps([1] * 110_000), LIMITS)


def test_brackets_and_commas_in_strings_do_not_count() -> None:
    text = json.dumps({"a": ',[{"\\' * 100_000})
    assert parse_foreign_json(text, JsonLimits(2 * 1024 * 1024, entries=2, depth=1)) == json.loads(text)
