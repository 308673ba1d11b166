from __future__ import annotations

from typing import Any

import pytest
from starlette.requests import Request

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.http.shared.request_parsing import parse_flag, read_body, read_page, to_text

FORM = "application/x-www-form-urlencoded"


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
        (b'{"a": 1}', FORM, {"a": 1}),  # what curl sends unless told otherwise
        (b"a=1&b=x+y", FORM, {"a": "1", "b": "x y"}),
    ],
)
async def test_bodies_are_read(body: bytes, kind: str, value: dict[str, Any]) -> None:
    assert await read_body(request(body, kind)) == value


@pytest.mark.parametrize("kind", ["", "text/plain", "multipart/form-data; boundary=x"])
async def test_who_sends_no_json_is_told_what_to_send(kind: str) -> None:
    with pytest.raises(RequestError, match=r"not JSON: .*Send a JSON object, with the header `Content-Type: app"):
        await read_body(request(b"agent_id=x&query=q", kind))


@pytest.mark.parametrize("body", [b"[1]", b"7", b"{", b"\xff", b"[" * 100_000, b'{"a": NaN}'])
async def test_other_bodies_are_refused(body: bytes) -> None:
    with pytest.raises(RequestError) as caught:
        await read_body(request(body, "application/json"))
    assert caught.value.number == 101


@pytest.mark.parametrize(
    ("query", "page"),
    [
        ("", (1, 30)),
        ("page=2&page_size=5", (2, 5)),
        ("page=0&page_size=0", (1, 30)),
        ("page=-1&page_size=x", (1, 30)),
        ("page=99999999999999999999", (1_000_000, 30)),
        ("page=٣", (1, 30)),
    ],
)
def test_pages_fall_back(query: str, page: tuple[int, int]) -> None:
    assert read_page(request(query=query)) == page


def test_large_pages_are_refused() -> None:
    with pytest.raises(RequestError, match="at most 100"):
        read_page(request(query="page_size=101"))


def test_flags_and_texts() -> None:
    assert [parse_flag(value) for value in ("true", "True", "1", True, 1, "false", "", None, 0)] == [True] * 5 + [
        False
    ] * 4
    assert parse_flag(None, default=True) is True
    assert [to_text(value) for value in ("a\x00b", None, 7, ["x"])] == ["ab", "", "", ""]
