"""Settings of the report writer, as its worker processes get them."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

Paper: TypeAlias = Literal["a4", "a5", "us-letter", "us-legal"]


class ReportSettings(Struct, frozen=True):
    """Fonts, paper and images of reports. The section ``[reports]`` describes the names that it has."""

    fonts: tuple[str, ...] = ()
    font_folders: tuple[str, ...] = ()
    system_fonts: bool = True
    paper: Paper = "a4"
    fetch_images: bool = False
    inline_bytes: int = 2 * 1024 * 1024
    """Maximum size of a file that the description of its download contains as Base64."""
    max_chars: int = 500_000
    """Maximum length of a text."""
    max_images: int = 100
    """Maximum number of images in a text."""
    image_bytes: int = 10 * 1024 * 1024
    """Maximum total size of the images in a text."""
