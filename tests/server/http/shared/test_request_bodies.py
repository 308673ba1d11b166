import json
from typing import Any, cast

import pytest
from starlette.requests import Request

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.http.shared import request_bodies
from ragflow_lg.server.http.shared.request_bodies import (
    CHECKED_BYTES,
    MAX_DEPTH,
    MAX_FIELD_BYTES,
    Upload,
    parse_flag,
    parse_json,
    read_body,
    read_parts,
    to_text,
)
from tests.harness.rows import each_row

FORM = "application/x-www-form-urlencoded"
KIND = "multipart/form-data; boundary=b"


def request(body: bytes = b"", kind: str = "", query: str = "") -> Request:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    headers = [(b"content-type", kind.encode())] if kind else []
    return Request({"type": "http", "method": "POST", "headers": headers, "query_string": query.encode()}, receive)


@pytest.mark.parametrize(
    ("body", "kind", "value"),
    [
        (b" \n", "application/json", {}),
        (b'{"a": 1}', "", {"a": 1}),
        (b'{"a": 1}', FORM, {"a": 1}),  # what curl sends by default
        (b"a=1&b=x+y", FORM, {"a": "1", "b": "x y"}),
    ],
)
async def test_json_and_form_bodies_are_read(body: bytes, kind: str, value: dict[str, Any]) -> None:
    assert await read_body(request(body, kind)) == value


@pytest.mark.parametrize("kind", ["", "text/plain", "multipart/form-data; boundary=x"])
async def test_a_body_that_is_not_json_is_refused_with_a_hint(kind: str) -> None:
    with pytest.raises(RequestError, match=r"not JSON: .*Send a JSON object with the header `Content-Type: app"):
        await read_body(request(b"agent_id=x&query=q", kind))


@each_row("body", [b"[1]", b"7", b"{", b"\xff", b"[" * 100_000, b'{"a": NaN}'])
async def test_other_bodies_are_refused(body: bytes) -> None:
    with pytest.raises(RequestError) as caught:
        await read_body(request(body, "application/json"))
    assert caught.value.number == 101


def test_flags_and_texts_are_parsed() -> None:
    assert [parse_flag(value) for value in ("true", "True", "1", True, 1, "false", "", None, 0)] == [True] * 5 + [
        False
    ] * 4
    assert [to_text(value) for value in ("a\x00b", None, 7, ["x"])] == ["ab", "", "", ""]


def multipart_request(body: bytes, kind: str = KIND) -> Request:
    pieces = iter([body[: len(body) // 2], body[len(body) // 2 :]])

    async def receive() -> dict[str, Any]:
        piece = next(pieces, None)
        return {"type": "http.request", "body": piece or b"", "more_body": piece is not None}

    headers = [(b"content-type", kind.encode("latin-1"))]
    return Request(cast("Any", {"type": "http", "headers": headers}), cast("Any", receive))


def part(disposition: str, content: bytes, kind: str = "") -> bytes:
    head = f"--b\r\nContent-Disposition: form-data; {disposition}\r\n"
    return head.encode() + (f"Content-Type: {kind}\r\n".encode() if kind else b"") + b"\r\n" + content + b"\r\n"


async def test_parts_are_read_in_order_with_their_names() -> None:
    body = part('name="a"', "ü".encode()) + part('name="f"; filename="n.txt"', b"\r\n--", "text/plain") + b"--b--\r\n"
    assert await read_parts(multipart_request(body), 1) == [("a", "ü"), ("f", Upload("n.txt", "text/plain", b"\r\n--"))]


@each_row(
    ("body", "kind"),
    [
        (b"nonsense", KIND),
        (part('name="a"', b"x"), "multipart/form-data"),
        (part("", b"x") + b"--b--", KIND),
        (part('name="f"; filename="a"', b"") * 2 + b"--b--", KIND),
        (part('name="a"', b"") * 1001 + b"--b--", KIND),
        (part('name="a"', b"x" * (MAX_FIELD_BYTES + 1)) + b"--b--", KIND),
    ],
)
async def test_malformed_and_oversized_bodies_are_refused(body: bytes, kind: str) -> None:
    with pytest.raises(RequestError, match="cannot be read"):
        await read_parts(multipart_request(body, kind), 1)


@pytest.mark.parametrize("mark", ["[]", '{"a":}'])
def test_deep_nesting_is_refused(mark: str) -> None:
    begin, end = mark[:-1], mark[-1:]
    parse_json(f"{begin * MAX_DEPTH}1{end * MAX_DEPTH}".encode())
    for depth in (MAX_DEPTH + 1, 900, 100_000):
        with pytest.raises(json.JSONDecodeError, match=f"nested more than {MAX_DEPTH} levels"):
            parse_json(f"{begin * depth}1{end * depth}".encode())


def test_too_many_entries_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_bodies, "MAX_ENTRIES", 1000)
    for entries, each in ((b"1,", 1), (b"{},", 1), (b"[1],", 2)):
        most = (entries * (1000 // each)).rstrip(b",")
        assert len(parse_json(b"[" + most + b"]")) == 1000 // each
        for more in (b"[" + most + b",1]", json.dumps(dict.fromkeys(range(1001))).encode()):
            with pytest.raises(json.JSONDecodeError, match="more than 1,000 list entries and fields"):
                parse_json(more)


async def test_too_many_brackets_are_refused_before_anything_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"[" + b"[]," * (CHECKED_BYTES // 3) + b"1]"
    with monkeypatch.context() as patch:
        patch.setattr(request_bodies, "msgspec", None)
        with pytest.raises(json.JSONDecodeError, match="more than 250,000 opening brackets"):
            parse_json(text)
    code = "if (a[0]) { b(); }\n" * (CHECKED_BYTES // 20)
    assert parse_json(json.dumps({"query": code}).encode()) == {"query": code}


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**22, "9" * 5_000, "1e400", "-1e400"])
def test_a_number_that_nobody_could_store_is_refused(number: int | str) -> None:
    with pytest.raises(json.JSONDecodeError, match=r"send it as a string|out of range"):
        parse_json(f'{{"a": [1, {number}], "b": 2}}'.encode())


@pytest.mark.parametrize("number", ["18446744073709551615", "-9223372036854775808", "1e300", f"{'1' * 30}.5"])
def test_other_numbers_are_read_as_they_are(number: str) -> None:
    assert parse_json(f"[{number}]".encode()) == [json.loads(number)]
