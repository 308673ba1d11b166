import json
import time
from typing import Any

import pytest

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.http.shared.body_reading import MAX_DEPTH, JsonBodyScanner

MB = 1024 * 1024


VALUES: list[tuple[Any, int]] = [
    ([1] * 100, 100),
    ([[]] * 50, 100),
    ([{}] * 50, 100),
    ({f"k{number}": "a" for number in range(100)}, 100),
    ({"a": ',[{"' * 1000}, 1),
    ({"a": "\\" * 1001 + '"' * 1001, "b\\": "[["}, 2),
    ([["a,b"] * 49] * 2, 100),
    ([{"a": 1}] * 50, 100),
]


@pytest.mark.parametrize("size", [1, 2, 7, 10_000])
@pytest.mark.parametrize(("value", "entries"), VALUES)
def test_text_with_as_many_entries_as_allowed_passes_in_pieces(value: Any, entries: int, size: int) -> None:
    text = json.dumps(value).encode()

    def scan(max_entries: int) -> None:
        scanner = JsonBodyScanner(max_entries)
        for start in range(0, len(text), size):
            scanner.feed(text[start : start + size])

    scan(entries)
    with pytest.raises(RequestError, match=f"more than {entries - 1} entries"):
        scan(entries - 1)


@pytest.mark.parametrize(
    ("begin", "piece", "count"),
    [
        (b"", b"1,", 8 * MB),
        (b"", b"[],", 5 * MB),
        (b"", b'"",', 5 * MB),
        (b"", b'{"a":[],', 2 * MB),
        (b"{", b'"":', 9 * MB),
    ],
    ids=["numbers", "lists", "strings", "objects", "names"],
)
def test_millions_of_values_are_refused_in_short_slices(begin: bytes, piece: bytes, count: int) -> None:
    text = begin + piece * count + b"1," * MB
    scanner, longest_s = JsonBodyScanner(50_000), 0.0
    refused = ""
    for start in range(0, len(text), 64 * 1024):
        began = time.process_time()
        try:
            scanner.feed(text[start : start + 64 * 1024])
        except RequestError as error:
            refused = str(error)
            break
        longest_s = max(longest_s, time.process_time() - began)
    assert "more than" in refused
    assert longest_s < 0.1


@pytest.mark.parametrize(("begin", "piece", "count"), [(b'["', b"a", 15), (b'["', b'\\"', 7), (b'"', b"\\", 15)])
def test_long_strings_pass_in_time_even_without_an_end(begin: bytes, piece: bytes, count: int) -> None:
    text = begin + piece * count * MB
    began = time.process_time()
    JsonBodyScanner(50_000).feed(text)
    assert time.process_time() - began < 5


@pytest.mark.parametrize("mark", ["[]", '{"a":}'])
def test_deep_nesting_is_refused(mark: str) -> None:
    begin, end = mark[:-1].encode(), mark[-1:].encode()
    JsonBodyScanner().feed(begin * MAX_DEPTH + end * MAX_DEPTH + begin)
    with pytest.raises(RequestError, match=f"nested more than {MAX_DEPTH} levels"):
        JsonBodyScanner().feed(begin * (MAX_DEPTH + 1))


def scan_pieces(text: bytes, size: int) -> None:
    scanner = JsonBodyScanner()
    for start in range(0, len(text), size):
        scanner.feed(text[start : start + size])


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**22, "9" * 5_000])
def test_an_integer_that_the_parser_would_round_is_refused(number: int | str, size: int) -> None:
    text = f'{{"a": [1, {number}], "b": 2}}'.encode()
    with pytest.raises(RequestError, match="Send it as a string"):
        scan_pieces(text, size)


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize(
    "number", [2**64 - 1, -(2**63), f"0.{'1' * 5_000}", "1e300", f"{'1' * 30}.5", f"{'1' * 30}e-3", f'"{"9" * 5_000}"']
)
def test_other_numbers_and_texts_of_digits_are_accepted(number: int | str, size: int) -> None:
    text = f'{{"a": [1, {number}], "b": 2}}'.encode()
    scan_pieces(text, size)
