import json

import pytest

from ragflow_lg.server.http.shared.body_reading import MAX_DEPTH, MAX_ENTRIES, parse_json


@pytest.mark.parametrize("mark", ["[]", '{"a":}'])
def test_deep_nesting_is_refused(mark: str) -> None:
    begin, end = mark[:-1], mark[-1:]
    parse_json(f"{begin * MAX_DEPTH}1{end * MAX_DEPTH}".encode())
    for depth in (MAX_DEPTH + 1, 900, 100_000):
        with pytest.raises(json.JSONDecodeError, match=f"nested more than {MAX_DEPTH} levels"):
            parse_json(f"{begin * depth}1{end * depth}".encode())


@pytest.mark.parametrize("entries", [b"1,", b"{},", b"[1],"])
def test_too_many_entries_are_refused(entries: bytes) -> None:
    each = 2 if entries == b"[1]," else 1
    most = (entries * (MAX_ENTRIES // each)).rstrip(b",")
    assert len(parse_json(b"[" + most + b"]")) == MAX_ENTRIES // each
    with pytest.raises(json.JSONDecodeError, match="more than 250,000 list entries and fields"):
        parse_json(b"[" + most + b",1]")
    with pytest.raises(json.JSONDecodeError, match="more than 250,000 list entries and fields"):
        parse_json(json.dumps(dict.fromkeys(range(MAX_ENTRIES + 1))).encode())


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**22, "9" * 5_000, "1e400", "-1e400"])
def test_a_number_that_nobody_could_store_is_refused(number: int | str) -> None:
    with pytest.raises(json.JSONDecodeError, match=r"send it as a string|out of range"):
        parse_json(f'{{"a": [1, {number}], "b": 2}}'.encode())


@pytest.mark.parametrize("number", ["18446744073709551615", "-9223372036854775808", "1e300", f"{'1' * 30}.5"])
def test_other_numbers_are_read_as_they_are(number: str) -> None:
    assert parse_json(f"[{number}]".encode()) == [json.loads(number)]


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b'"\xff"', b'"\\ud800"', b"NaN", b"[Infinity]"])
def test_other_texts_are_refused(text: bytes) -> None:
    with pytest.raises(json.JSONDecodeError):
        parse_json(text)
