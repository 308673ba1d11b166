"""Images in a report: their type and size in pixels, and ``data:`` addresses."""

from __future__ import annotations

import base64
import binascii
import re
import struct
from typing import Literal, NamedTuple, TypeAlias

ImageType: TypeAlias = Literal["png", "jpeg", "gif", "webp", "svg"]

MAX_PIXELS = 40_000_000
"""Maximum number of pixels of an image, which is decompressed to write it."""

_DATA = re.compile(r"data:image/[\w.+-]+;base64,", re.IGNORECASE)
_SVG = re.compile(
    rb"\s*+(?:(?><\?xml[^>]*>|<!--.*?-->|<!DOCTYPE[^>\[]*>)\s*+)*+<svg(?=[\s/>])([^>]*)>", re.DOTALL
)  # without backtracking, which comments could make endless
_ATTRIBUTE = re.compile(rb"""\b(width|height|viewBox)\s*=\s*["']([^"']{1,100})["']""")
_LENGTH = re.compile(rb"\s*(\d{1,9}(?:\.\d{0,9})?)(?:px|pt)?\s*$")
_MAX_SVG_HEAD = 65_536
_MAX_SVG_SIDE = 2_000
_SVG_SIDE = 300.0
"""The size of a drawing that states none."""

_JPEG_SIZES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
_MAX_SEGMENTS = 1_000


class Picture(NamedTuple):
    """An image with its type and size in pixels."""

    content: bytes
    type: ImageType
    width: int
    height: int

    @property
    def media_type(self) -> str:
        """The media type."""
        return f"image/{self.type}{'+xml' if self.type == 'svg' else ''}"

    @property
    def data_address(self) -> str:
        """The image as a ``data:`` address."""
        return f"data:{self.media_type};base64,{base64.b64encode(self.content).decode('ascii')}"


def read_data_address(address: str) -> bytes | None:
    """Return the content of a ``data:`` address with an image, or None if it is not one."""
    match = _DATA.match(address)
    if match is None:
        return None
    try:
        return base64.b64decode(address[match.end() :], validate=True)
    except (binascii.Error, ValueError):
        return None


def read_picture(content: bytes) -> Picture | None:
    """Return an image, or None if its type is unknown, its header is damaged, or it has too many pixels."""
    try:
        picture = _read(content)
    except (struct.error, IndexError):
        return None
    if picture is None:
        return None
    is_valid = picture.width > 0 and picture.height > 0 and picture.width * picture.height <= MAX_PIXELS
    return picture if is_valid else None


def _read(content: bytes) -> Picture | None:
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        return Picture(content, "png", *struct.unpack(">II", content[16:24]))
    if content.startswith((b"GIF87a", b"GIF89a")):
        return Picture(content, "gif", *struct.unpack("<HH", content[6:10]))
    if content.startswith(b"\xff\xd8"):
        return _read_jpeg(content)
    if content.startswith(b"RIFF") and content[8:12] == b"WEBP":
        return _read_webp(content)
    return _read_svg(content)


def _read_svg(content: bytes) -> Picture | None:
    """Return a drawing with the size that it states, or that of its coordinates."""
    match = _SVG.match(content[:_MAX_SVG_HEAD])
    if match is None:
        return None
    attributes = dict(_ATTRIBUTE.findall(match[1]))
    box = attributes.get(b"viewBox", b"").replace(b",", b" ").split()
    sizes = [attributes.get(b"width", b""), attributes.get(b"height", b"")]
    if not all(map(_LENGTH.match, sizes)) and len(box) == 4:
        sizes = box[2:]
    numbers = [float(length[1]) if (length := _LENGTH.match(size)) else _SVG_SIDE for size in sizes]
    width, height = (max(1, min(_MAX_SVG_SIDE, round(number))) for number in numbers)
    return Picture(content, "svg", width, height)


def _read_jpeg(content: bytes) -> Picture | None:
    at = 2
    for _ in range(_MAX_SEGMENTS):
        while content[at] != 0xFF:
            at += 1
        marker = content[at + 1]
        if marker in _JPEG_SIZES:
            height, width = struct.unpack(">HH", content[at + 5 : at + 9])
            return Picture(content, "jpeg", width, height)
        at += 2 + struct.unpack(">H", content[at + 2 : at + 4])[0]
    return None


def _read_webp(content: bytes) -> Picture | None:
    kind = content[12:16]
    if kind == b"VP8X":
        width, height = (int.from_bytes(content[at : at + 3], "little") + 1 for at in (24, 27))
        return Picture(content, "webp", width, height)
    if kind == b"VP8L":
        bits = int.from_bytes(content[21:25], "little")
        return Picture(content, "webp", (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
    if kind == b"VP8 ":
        width, height = struct.unpack("<HH", content[26:30])
        return Picture(content, "webp", width & 0x3FFF, height & 0x3FFF)
    return None
