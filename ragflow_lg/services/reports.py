"""Writing files from Markdown: requests, results, and the Protocol of the writer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

ReportFormat: TypeAlias = Literal["pdf", "docx", "html", "markdown", "txt", "xlsx"]

MEDIA_TYPES: Mapping[ReportFormat, str] = {
    "pdf": "application/pdf",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "html": "text/html",
    "markdown": "text/markdown",
    "txt": "text/plain",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}

ImageLoader: TypeAlias = Callable[[str], Awaitable[bytes | None]]
"""Returns the image at an address, or None if it must not be used or does not exist."""


class Layout(Struct, frozen=True):
    """What surrounds the text on each page, and its size."""

    header: str = ""
    footer: str = ""
    watermark: str = ""
    timestamp: str = ""
    """The time for the footer, or for the first line of formats without pages; ``""`` for none."""
    has_page_numbers: bool = False
    font_size: float = 11.0
    """Size of the text in points. Headings are 6, 4 and 2 points larger."""


class ReportRequest(Struct, frozen=True):
    """A Markdown text, and the file to write."""

    text: str
    format: ReportFormat
    layout: Layout = Layout()


class WrittenReport(Struct, frozen=True):
    """The file, and sentences about what it could not show, such as characters that no font has."""

    content: bytes
    warnings: tuple[str, ...] = ()


class Reports(Protocol):
    """Writes files from Markdown that may be hostile."""

    @property
    def fetches_images(self) -> bool:
        """Whether images at web addresses may be fetched."""
        ...

    @property
    def inline_bytes(self) -> int:
        """Maximum size of a file that the description of its download contains as well."""
        ...

    async def write(self, request: ReportRequest, load_image: ImageLoader) -> WrittenReport:
        """Write a file.

        Raises:
            ServiceError: if the text cannot be converted, or exceeds a limit.
            SettingsError: if the packages for the format are not installed.
        """
        ...
