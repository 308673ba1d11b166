from typing import Any, cast

import pytest
from starlette.requests import Request

from ragflow_lg.base.errors import RequestError
from ragflow_lg.server.http.shared.multipart import MAX_FIELD_BYTES, Upload, is_multipart, read_parts

KIND = "multipart/form-data; boundary=b"


def request(body: bytes, kind: str = KIND) -> Request:
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
    assert await read_parts(request(body), 1) == [("a", "ü"), ("f", Upload("n.txt", "text/plain", b"\r\n--"))]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"nonsense", KIND),
        (part('name="a"', b"x"), "multipart/form-data"),
        (part("", b"x") + b"--b--", KIND),
        (part('name="f"; filename="a"', b"") * 2 + b"--b--", KIND),
        (part('name="a"', b"") * 1001 + b"--b--", KIND),
        (part('name="a"', b"x" * (MAX_FIELD_BYTES + 1)) + b"--b--", KIND),
    ],
    ids=["no parts", "no boundary", "no name", "too many files", "too many fields", "a field too large"],
)
async def test_malformed_and_oversized_bodies_are_refused(body: bytes, kind: str) -> None:
    with pytest.raises(RequestError, match="cannot be read"):
        await read_parts(request(body, kind), 1)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [(KIND, True), ("Multipart/Form-Data", True), ("multipart/form-dataX", False), ("", False), ("\xff", False)],
)
def test_the_content_type_is_recognized(kind: str, expected: bool) -> None:
    assert is_multipart(request(b"", kind)) is expected
