import json
import time
from typing import Any

import pytest

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.http.shared.json_bodies import check_values

MB = 1024 * 1024


VALUES: list[Any] = [
    [1] * 100,
    [[]] * 100,
    [{}] * 100,
    {f"k{number}": "a" for number in range(100)},
    {"a": ',[{"' * 1000},
    {"a": "\\" * 1001 + '"' * 1001},
    [["a,b"] * 49] * 2,
]


@pytest.mark.parametrize("value", VALUES)
def test_text_with_as_many_entries_as_allowed_passes(value: Any) -> None:
    check_values(json.dumps(value).encode(), 100)
    with pytest.raises(RequestError, match="more than 20 entries"):
        check_values(json.dumps([value, *[value] * 41]).encode(), 20)


@pytest.mark.parametrize(
    "text",
    [b"1," * 8 * MB, b"[" * 15 * MB, b'"",' * 5 * MB, b'{"a":[],' * 2 * MB, b"[" + b'"' * 15 * MB],
    ids=["numbers", "lists", "strings", "objects", "quotation marks"],
)
def test_millions_of_values_are_refused_quickly(text: bytes) -> None:
    began = time.process_time()
    with pytest.raises(RequestError, match="more than 50,000 entries"):
        check_values(text, 50_000)
    assert time.process_time() - began < 1


@pytest.mark.parametrize("text", [b'["' + b"a" * 15 * MB, b'["' + b'\\"' * 7 * MB, b'"' + b"\\" * 15 * MB])
def test_long_strings_pass_quickly_even_without_an_end(text: bytes) -> None:
    began = time.process_time()
    check_values(text, 50_000)
    assert time.process_time() - began < 1
