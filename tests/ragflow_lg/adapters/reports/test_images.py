"""Types and sizes of images."""

import base64
import struct
import time

from ragflow_lg.adapters.reports.images import MAX_PIXELS, read_data_address, read_picture
from tests.fakes.images import GIF, PNG
from tests.harness.rows import each_row

JPEG = b"\xff\xd8\xff\xe0\0\x04xx\xff\xc0\0\x11\x08" + struct.pack(">HH", 20, 30) + b"\0" * 12
VP8X = b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + (29).to_bytes(3, "little") + (19).to_bytes(3, "little")
VP8L = b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f" + (29 | 19 << 14).to_bytes(4, "little")
VP8 = b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 30, 20)


@each_row(
    ("content", "expected"),
    [
        (PNG, ("png", 1, 1)),
        (GIF, ("gif", 1, 1)),
        (JPEG, ("jpeg", 30, 20)),
        (VP8X, ("webp", 30, 20)),
        (VP8L, ("webp", 30, 20)),
        (VP8, ("webp", 30, 20)),
        (b'<?xml version="1.0"?><!-- a --><svg xmlns="x"/>', ("svg", 300, 300)),
        (b'<svg width="200" height="80px" viewBox="0 0 1 1">', ("svg", 200, 80)),
        (b'<svg width="100%" viewBox="0 0 40 20">', ("svg", 40, 20)),
        (b'<svg width="999999999" height="0">', ("svg", 2000, 1)),
    ],
)
def test_types_and_sizes(content: bytes, expected: tuple[str, int, int]) -> None:
    picture = read_picture(content)
    assert picture is not None
    assert (picture.type, picture.width, picture.height) == expected


BOMB = PNG[:16] + struct.pack(">II", MAX_PIXELS, 2) + PNG[24:]


@each_row("content", [b"", b"text", PNG[:20], JPEG[:8], VP8X[:14], BOMB, b"GIF89a\0\0\0\0", b"\xff\xd8" + b"\0" * 99])
def test_other_files_are_not_images(content: bytes) -> None:
    assert read_picture(content) is None


@each_row("address", ["", "data:text/html;base64,AAAA", "data:image/png;base64,!", "data:image/png,x", "/a.png"])
def test_other_addresses_have_no_content(address: str) -> None:
    assert read_data_address(address) is None


def test_comments_before_a_drawing_take_linear_time() -> None:
    start_s = time.process_time()
    assert read_picture(b"<!---->" * 9_000 + b"x") is None
    assert time.process_time() - start_s < 1


def test_a_data_address_contains_an_image() -> None:
    assert read_data_address(f"data:image/png;base64,{base64.b64encode(PNG).decode()}") == PNG
