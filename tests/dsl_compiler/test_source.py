import time

import pytest

from ragflow_lg.dsl_compiler.diagnostics import Reporter
from ragflow_lg.dsl_compiler.source import MAX_BYTES, MAX_DEPTH, Position, locate, read_source, split_lines
from tests.harness.rows import each_row


def codes(source: str | bytes | dict[str, object]) -> list[str]:
    reporter = Reporter()
    read_source(source, reporter)
    return [d.code for d in reporter.diagnostics]


@each_row(
    "source",
    [
        "",
        " \n",
        "{",
        '{"a": True}',
        "{'a': 1}",
        '{"a": NaN}',
        '{"a": ' + "1" * 5000 + "}",
        b"\xff\x00\x01",
        "[1 2]",
        '{"a":1}}',
    ],
)
def test_invalid_json_is_reported(source: str | bytes) -> None:
    assert codes(source) == ["json-invalid"]


def test_messages_end_where_the_position_follows() -> None:
    reporter = Reporter()
    read_source('{"a": "b', reporter)
    read_source('{"a": "\n"}', reporter)
    assert [d.message for d in reporter.diagnostics] == ["Unterminated string.", "Invalid control character."]


@pytest.mark.parametrize("source", ["[" * 100_000, '{"a":' * 100_000, "[" * (MAX_DEPTH + 2) + "]" * (MAX_DEPTH + 2)])
def test_a_deeply_nested_document_is_refused(source: str) -> None:
    assert codes(source) == ["document-too-large"]


def test_a_large_document_is_refused() -> None:
    assert codes('"' + "a" * MAX_BYTES + '"') == ["document-too-large"]


def test_a_deeply_nested_json_value_is_refused() -> None:
    deep: dict[str, object] = {}
    for _ in range(MAX_DEPTH + 2):
        deep = {"a": deep}
    assert codes(deep) == ["document-too-large"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_unicode_encodings_are_read(encoding: str) -> None:
    assert read_source('{"ä": "漢"}'.encode(encoding), Reporter())[0] == {"ä": "漢"}


def test_repeated_keys_are_reported_and_the_last_value_is_used() -> None:
    reporter = Reporter()
    assert read_source('{"a": 1, "a": 2}', reporter)[0] == {"a": 2}
    assert reporter.diagnostics[0].code == "json-duplicate-key"


def test_repeated_keys_are_reported_where_they_stand() -> None:
    reporter = Reporter()
    read_source('{"a": [{"b": "a", "c": 1}],\n "d": {"b": 2, "e": 3,\n  "b": 4}, "a": 5}', reporter)
    assert [(d.message.split("'")[1], d.line, d.column) for d in reporter.diagnostics] == [("b", 3, 3), ("a", 3, 12)]


def test_an_invalid_byte_is_reported_where_it_stands() -> None:
    reporter = Reporter()
    read_source(b'{\n "a": "\xc3\xa4\xe4"}', reporter)
    (diagnostic,) = reporter.diagnostics
    assert (diagnostic.line, diagnostic.column) == (2, 9)
    assert diagnostic.message == "The file is not UTF-8: byte 0xe4 is invalid here."


def test_lone_surrogates_are_replaced() -> None:
    assert read_source('{"a\\ud800": ["\\udfff"]}', Reporter())[0] == {"a\ufffd": ["\ufffd"]}


def test_python_literals_get_a_hint() -> None:
    reporter = Reporter()
    read_source('{"a": True}', reporter)
    assert "true" in reporter.diagnostics[0].hint


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


def test_ten_megabytes_are_read_and_located() -> None:
    text = '{"components": {' + ",".join(f'"n{i}": {{"x": "{"y" * 500}"}}' for i in range(18_000)) + "}}"
    assert len(text) > 9_000_000
    reporter = Reporter()
    read_source(text, reporter)
    locate(text, [f"/components/n{i}/x" for i in range(500)])
    assert not reporter.diagnostics


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
