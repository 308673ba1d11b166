"""Files that travel inside the request."""

from __future__ import annotations

from typing import Any

import pytest

from ragflow_lg.adapters.local_files import InlineFiles
from ragflow_lg.base.errors import ServiceError

PIXEL = "data:image/png;base64,AAAA"


async def test_contents_in_order():
    given = [
        "text",
        PIXEL,
        {"content": "c", "text": "t"},
        {"text": "t"},
        {"name": "x.png", "value": PIXEL},
        "/etc/passwd",
    ]
    assert await InlineFiles().read(given, "") == ["text", PIXEL, "c", "t", PIXEL, "/etc/passwd"]


@pytest.mark.parametrize(
    ("file", "named"),
    [
        ({"id": "f1", "name": "a.pdf"}, "'a.pdf'"),
        ({"id": "f1"}, "'f1'"),
        ({"path": "/etc/passwd"}, "A file"),
        ({"content": b"x"}, "A file"),
        (7, "int"),
        (None, "NoneType"),
    ],
)
async def test_named_files_cannot_be_read(file: Any, named: str):
    with pytest.raises(ServiceError, match="no file store is configured") as caught:
        await InlineFiles().read(["first", file], "")
    assert named in str(caught.value)
