import re
import time
from functools import reduce
from typing import Any

import pytest

from ragflow_lg.dsl_compiler.diagnostics import Reporter
from ragflow_lg.dsl_compiler.source import MAX_BYTES, MAX_DEPTH, Position, locate, read_source, split_lines
from tests.harness.rows import each_row

DEEP, OVER = "[" * (MAX_DEPTH + 2), MAX_DEPTH + 2


@each_row(
    ("source", "expected"),
    [
        *((text, "json-invalid .*") for text in ("", " \n", "{", "{'a': 1}", '{"a": NaN}', "[1 2]", '{"a":1}}')),
        ('{"a": True}', "json-invalid .*true.*"),
        ('{"a": ' + "1" * 5000 + "}", "json-invalid .*"),
        (b"\xff\x00\x01", "json-invalid .*"),
        ('{"a": "b', r"json-invalid 1:\d+ Unterminated string\.\|.*"),
        ('{"a": "\n"}', r"json-invalid \d:\d+ Invalid control character\.\|.*"),
        (b'{\n "a": "\xc3\xa4\xe4"}', r"json-invalid 2:9 The file is not UTF-8: byte 0xe4 is invalid here\.\|.*"),
        *((deep, "document-too-large .*") for deep in ("[" * 100_000, '{"a":' * 100_000, DEEP + "]" * OVER)),
        ('"' + "a" * MAX_BYTES + '"', "document-too-large .*"),
        (reduce(lambda inner, _: {"a": inner}, range(OVER), dict[str, Any]()), "document-too-large .*"),
        ('{"a": [{"b": "a", "c": 1}],\n "d": {"b": 2, "e": 3,\n  "b": 4}, "a": 5}',
         "json-duplicate-key 3:3 .*'b'.*\njson-duplicate-key 3:12 .*'a'.*"),
    ],
)  # fmt: skip
def test_a_source_that_is_not_one_json_value_is_reported(source: Any, expected: str) -> None:
    reporter = Reporter()
    read_source(source, reporter)
    found = "\n".join(f"{d.code} {d.line}:{d.column} {d.message}|{d.hint}" for d in reporter.diagnostics)
    assert re.fullmatch(expected, found), found


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_unicode_encodings_are_read(encoding: str) -> None:
    assert read_source('{"ä": "漢"}'.encode(encoding), Reporter())[0] == {"ä": "漢"}


def test_the_last_value_of_a_repeated_key_is_used() -> None:
    assert read_source('{"a": 1, "a": 2}', Reporter())[0] == {"a": 2}


def test_lone_surrogates_are_replaced() -> None:
    assert read_source('{"a\\ud800": ["\\udfff"]}', Reporter())[0] == {"a\ufffd": ["\ufffd"]}


TEXT = '{\n  "a": [1, {"b/c~d": "x\\"}"}],\n  "e": {}\n}'


@each_row(
    ("pointer", "position"),
    [
        ("", (1, 1)),
        ("/a", (2, 8)),
        ("/a/0", (2, 9)),
        ("/a/1/b~1c~0d", (2, 22)),
        ("/e", (3, 8)),
        ("/e/missing/deeper", (3, 8)),
        ("/nowhere", (1, 1)),
    ],
)
def test_pointers_are_located(pointer: str, position: tuple[int, int]) -> None:
    assert locate(TEXT, [pointer]) == {pointer: Position(*position)}


def test_a_long_key_is_not_copied_for_every_value_below_it() -> None:
    text = '{"' + "k" * 200_000 + '": [' + ",".join("1" * 100_000) + '], "b": 2}'
    start_s = time.process_time()
    assert locate(text, ["/b"])["/b"].line == 1
    assert time.process_time() - start_s < 3


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_end_as_editors_count_them(end: str) -> None:
    text = end.join(["{", '"a": "\u2028 \x85",', '  "b": 1}'])
    assert locate(text, ["/b"]) == {"/b": Position(3, 8)}
    assert split_lines(text)[2] == '  "b": 1}'
    reporter = Reporter()
    read_source(text[:-1] + "!", reporter)
    assert (reporter.diagnostics[0].line, reporter.diagnostics[0].column) == (3, 9)
