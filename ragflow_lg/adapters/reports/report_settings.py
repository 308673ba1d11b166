"""Settings of the report writer."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

Paper: TypeAlias = Literal["a4", "a5", "us-letter", "us-legal"]


class ReportSettings(Struct, frozen=True):
    """Fonts, paper and images of reports. Source of the names: the section ``[reports]`` of the settings."""

    fonts: tuple[str, ...] = ()
    """Families that precede the built-in ones."""
    font_folders: tuple[str, ...] = ()
    """Folders with further fonts."""
    system_fonts: bool = True
    """Whether the fonts of the system are used."""
    paper: Paper = "a4"
    fetch_images: bool = False
    """Whether images at web addresses are fetched."""
    inline_bytes: int = 2 * 1024 * 1024
    """Maximum size of a file that the description of its download contains as Base64."""
    max_chars: int = 500_000
    """Maximum length of a text."""
    max_images: int = 100
    """Maximum number of images in a text."""
    image_bytes: int = 10 * 1024 * 1024
    """Maximum total size of the images in a text."""
