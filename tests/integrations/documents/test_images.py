import base64
import struct
import zlib
from pathlib import Path

import pytest

from ragflow_lg.integrations.documents.images import read_data_address, read_picture
from tests.conftest import FIXTURES
from tests.fakes.images import PNG
from tests.harness.rows import each_row
from tests.integrations.documents.written import DRAWING

WEBP = base64.b64decode("UklGRiQAAABXRUJQVlA4IBgAAAAwAQCdASoBAAEAAgA0JaQAA3AA/vuUAAA=")
JPEG = (FIXTURES / "images" / "photo.jpg").read_bytes()
GIF = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")


@each_row(("content", "kind"), [(PNG, "png"), (GIF, "gif"), (JPEG, "jpeg"), (WEBP, "webp"), (DRAWING, "svg")])
def test_types(content: bytes, kind: str) -> None:
    picture = read_picture(content)
    assert picture is not None
    assert picture.type == kind
    drawn = read_picture(content, as_pixels=True)
    assert drawn is not None
    assert drawn.type == ("png" if kind in ("svg", "webp") else kind)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


BOMB = PNG[:8] + _chunk(b"IHDR", struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)) + PNG[33:]


@each_row("content", [b"", b"text", PNG[:20], PNG[:40], JPEG[:8], WEBP[:14], BOMB, b"GIF89a\0\0\0\0", b"<svg"])
def test_other_files_are_not_images(content: bytes) -> None:
    assert read_picture(content) is None


@pytest.mark.parametrize("address", ["/a.png", "a.png", "file:///a.png", "../a.png", "http://127.0.0.1/a.png"])
def test_a_drawing_cannot_refer_to_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    monkeypatch.chdir(tmp_path)
    drawing = f'<svg xmlns="http://www.w3.org/2000/svg"><image href="{address}" width="9" height="9"/></svg>'
    assert read_picture(drawing.encode()) is None


@each_row("address", ["", "data:text/html;base64,AAAA", "data:image/png;base64,!", "data:image/png,x", "/a.png"])
def test_other_addresses_have_no_content(address: str) -> None:
    assert read_data_address(address) is None


def test_a_data_address_contains_an_image() -> None:
    assert read_data_address(f"data:image/png;base64,{base64.b64encode(PNG).decode()}") == PNG
