"""Images in a report: their types, and ``data:`` addresses."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any, NamedTuple

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.integrations.documents.typst_compiler import compile_source, open_fonts

_DATA = re.compile(r"data:image/[\w.+-]+;base64,", re.IGNORECASE)
_STARTS = (
    ("png", re.compile(rb"\x89PNG\r\n\x1a\n")),
    ("jpeg", re.compile(rb"\xff\xd8\xff")),
    ("gif", re.compile(rb"GIF8[79]a")),
    ("webp", re.compile(rb"RIFF....WEBP", re.DOTALL)),
    ("svg", re.compile(rb"\s*<(?:\?xml|!--|!DOCTYPE|svg)")),
)


class Picture(NamedTuple):
    """An image and its type: ``png``, ``jpeg``, ``gif``, ``webp`` or ``svg``."""

    content: bytes
    type: str

    @property
    def data_address(self) -> str:
        """The image as a ``data:`` address."""
        media_type = f"image/{self.type}{'+xml' if self.type == 'svg' else ''}"
        return f"data:{media_type};base64,{base64.b64encode(self.content).decode('ascii')}"


def read_data_address(address: str) -> bytes | None:
    """Return the content of a ``data:`` address with an image, or None if it is not one."""
    match = _DATA.match(address)
    if match is None:
        return None
    try:
        return base64.b64decode(address[match.end() :], validate=True)
    except (binascii.Error, ValueError):
        return None


def read_picture(content: bytes, *, as_pixels: bool = False) -> Picture | None:
    """Return an image, or None if its type is unknown, or if it is damaged, too large or refers to files.

    With ``as_pixels``, types that Word does not know are drawn as PNG.
    """
    kind = next((kind for kind, start in _STARTS if start.match(content)), "")
    if not kind:
        return None
    fonts, _ = open_fonts((), False)
    is_drawn = as_pixels and kind in ("svg", "webp")
    options: dict[str, Any] = {"format": "png", "ppi": 96} if is_drawn else {"format": "svg"}
    source = f'#set page(width: auto, height: auto, margin: 0pt)\n#image("image", format: "{_FORMATS.get(kind, kind)}")'
    try:
        drawn = compile_source(source, fonts, {"image": content}, **options)
    except ServiceError:
        return None
    return Picture(drawn, "png") if is_drawn else Picture(content, kind)


_FORMATS = {"jpeg": "jpg"}
