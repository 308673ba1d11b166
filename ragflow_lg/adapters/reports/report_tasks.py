"""The work on a report, in worker processes: its text may be hostile."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ragflow_lg.adapters.reports.report_settings import ReportSettings
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.worker_tasks import worker_task
from ragflow_lg.services.reports import Layout, ReportRequest

if TYPE_CHECKING:
    from ragflow_lg.adapters.reports.images import Picture
    from ragflow_lg.adapters.reports.report_tree import Block

MAX_BYTES = 20 * 1024 * 1024
"""Maximum size of a file."""

_PART_BYTES = 3 * 1024 * 1024


@worker_task("Looking for the images of the document", seconds=30, small_size=0)
def list_images(text: str) -> list[str]:
    """Return the addresses of the images in a text, each once."""
    from ragflow_lg.adapters.reports.markdown_reader import read_markdown
    from ragflow_lg.adapters.reports.report_tree import Image, inline_parts

    parts = inline_parts(read_markdown(text))
    return list(dict.fromkeys(part.address for part in parts if isinstance(part, Image)))


@worker_task("Writing the document", seconds=60, small_size=0)
def build_report(
    request: ReportRequest, images: Mapping[str, bytes], settings: ReportSettings
) -> tuple[list[str], list[str]]:
    """Return the parts of a file in Base64, each a multiple of three bytes, and warnings.

    Raises:
        ServiceError: if the file is too large, or Typst refuses the text.
    """
    content, warnings = _write(request, images, settings)
    if len(content) > MAX_BYTES:
        raise ServiceError(f"The document has {len(content):,} bytes, more than {MAX_BYTES:,}.")
    starts = range(0, len(content), _PART_BYTES)
    return [base64.b64encode(content[at : at + _PART_BYTES]).decode("ascii") for at in starts], warnings


def _write(request: ReportRequest, images: Mapping[str, bytes], settings: ReportSettings) -> tuple[bytes, list[str]]:
    from ragflow_lg.adapters.reports.markdown_reader import clean_text, read_markdown

    text, layout = clean_text(request.text), _clean_layout(request.layout)
    if request.format == "markdown":
        return "\n\n".join(part for part in (layout.timestamp, text) if part).encode(), []
    if request.format == "xlsx":
        from ragflow_lg.adapters.reports.xlsx_file import write_xlsx

        return write_xlsx(text), []
    blocks = read_markdown(text)
    if request.format == "txt":
        from ragflow_lg.adapters.reports.text_file import write_text

        return write_text(blocks, layout.timestamp), []
    pictures, unshown = _read_pictures(blocks, images, draws=request.format != "html")
    warnings = (
        [f"These images are damaged, or of a type that is not supported: {', '.join(unshown)}"] if unshown else []
    )
    if request.format == "html":
        from ragflow_lg.adapters.reports.html_file import write_html

        return write_html(blocks, text, layout.timestamp, pictures), warnings
    if request.format == "docx":
        from ragflow_lg.adapters.reports.docx_file import write_docx

        return write_docx(blocks, layout, pictures, settings), warnings
    from ragflow_lg.adapters.reports.pdf_file import write_pdf

    content, more = write_pdf(blocks, text, layout, pictures, settings)
    return content, [*warnings, *more]


def _clean_layout(layout: Layout) -> Layout:
    """Return a layout whose texts are single lines of characters that all targets can contain."""
    from ragflow_lg.adapters.reports.markdown_reader import clean_text

    names = ("header", "footer", "watermark", "timestamp")
    return replace(layout, **{name: " ".join(clean_text(getattr(layout, name)).split()) for name in names})


def _read_pictures(
    blocks: Sequence[Block], images: Mapping[str, bytes], *, draws: bool
) -> tuple[dict[str, Picture], list[str]]:
    """Return the images by address, and the addresses of those that cannot be shown.

    With ``draws``, drawings (SVG) must be ones that Typst can draw.
    """
    from ragflow_lg.adapters.reports.images import read_data_address, read_picture
    from ragflow_lg.adapters.reports.report_tree import Image, inline_parts
    from ragflow_lg.adapters.reports.typst_compiler import draw_picture

    pictures: dict[str, Picture] = {}
    unshown: list[str] = []
    for address in dict.fromkeys(part.address for part in inline_parts(blocks) if isinstance(part, Image)):
        content = images.get(address) or read_data_address(address)
        if not content:
            continue
        picture = read_picture(content)
        if picture is None or (draws and picture.type == "svg" and draw_picture(picture) is None):
            unshown.append(address[:100])
        else:
            pictures[address] = picture
    return pictures, unshown
