from typing import Any

import pytest

from ragflow_lg.adapters.local_files import InlineFiles
from ragflow_lg.base.errors import ServiceError

PIXEL = "data:image/png;base64,AAAA"


async def test_contents_are_returned_in_order() -> None:
    files = [
        "text",
        PIXEL,
        {"content": "c", "text": "t"},
        {"text": "t"},
        {"name": "x.png", "value": PIXEL},
        "/etc/passwd",
    ]
    assert await InlineFiles().read(files, "") == ["text", PIXEL, "c", "t", PIXEL, "/etc/passwd"]


@pytest.mark.parametrize(
    ("file", "description"),
    [
        ({"id": "f1", "name": "a.pdf"}, "'a.pdf'"),
        ({"id": "f1"}, "'f1'"),
        ({"path": "/etc/passwd"}, "A file"),
        ({"content": b"x"}, "A file"),
        (7, "A file of type int"),
        (None, "A file of type NoneType"),
    ],
)
async def test_a_file_without_content_cannot_be_read(file: Any, description: str) -> None:
    with pytest.raises(ServiceError, match="no file store is configured") as caught:
        await InlineFiles().read(["first", file], "")

    assert description in str(caught.value)
