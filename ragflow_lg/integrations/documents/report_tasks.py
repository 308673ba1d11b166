"""The work on a report, in worker processes: its text may be hostile."""

from __future__ import annotations

import html
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
from msgspec.structs import replace

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.worker_tasks import worker_task
from ragflow_lg.integrations.documents.report_settings import ReportSettings
from ragflow_lg.services.reports import Layout, ReportRequest

if TYPE_CHECKING:
    from ragflow_lg.integrations.documents.images import Picture
    from ragflow_lg.integrations.documents.markdown_document import Element

MAX_BYTES = 20 * 1024 * 1024
"""Maximum size of a file."""


@worker_task("Looking for the images of the document", seconds=30, small_size=0)
def list_images(text: str) -> list[str]:
    """Return the addresses of the images in a text, each once."""
    from ragflow_lg.integrations.documents.markdown_document import find_parts, read_markdown

    return list(dict.fromkeys(address for _, _, (address, _) in find_parts(read_markdown(text), "Image")))


@worker_task("Writing the document", seconds=60, small_size=0)
def build_report(request: ReportRequest, images: Mapping[str, bytes], settings: ReportSettings) -> bytes:
    """Return a line with warnings as JSON, and a file after it: only bytes leave a worker process unchanged.

    Raises:
        ServiceError: if the file is too large, or Pandoc or Typst refuses the text.
    """
    content, warnings = _write(request, images, settings)
    if len(content) > MAX_BYTES:
        raise ServiceError(f"The document has {len(content):,} bytes, more than {MAX_BYTES:,}.")
    return b"%b\n%b" % (orjson.dumps(warnings), content)


def _write(request: ReportRequest, images: Mapping[str, bytes], settings: ReportSettings) -> tuple[bytes, list[str]]:
    from ragflow_lg.integrations.documents.markdown_document import DocumentWriter, clean_text, read_markdown

    text, layout = clean_text(request.text), _clean_layout(request.layout)
    if request.format == "markdown":
        return "\n\n".join(part for part in (layout.timestamp, text) if part).encode(), []
    if request.format == "xlsx":
        from ragflow_lg.integrations.documents.xlsx_file import write_xlsx

        return write_xlsx(text), []
    blocks = read_markdown(text)
    if request.format == "txt":
        return f"{layout.timestamp}\n\n".lstrip().encode() + DocumentWriter("plain", {}).write(blocks), []
    pictures, unshown = _read_pictures(blocks, images, as_pixels=request.format == "docx")
    warnings = (
        [f"These images are damaged, or of a type that is not supported: {', '.join(unshown)}"] if unshown else []
    )
    if request.format == "html":
        return _write_html(blocks, text, layout.timestamp, pictures), warnings
    if request.format == "docx":
        from ragflow_lg.integrations.documents.docx_file import write_docx

        return write_docx(blocks, layout, pictures, settings), warnings
    from ragflow_lg.integrations.documents.pdf_file import write_pdf

    content, more = write_pdf(blocks, text, layout, pictures, settings)
    return content, [*warnings, *more]


def _clean_layout(layout: Layout) -> Layout:
    """Return a layout whose texts are single lines of characters that all targets can contain."""
    from ragflow_lg.integrations.documents.markdown_document import clean_text

    names = ("header", "footer", "watermark", "timestamp")
    return replace(layout, **{name: " ".join(clean_text(getattr(layout, name)).split()) for name in names})


def _read_pictures(
    blocks: list[Element], images: Mapping[str, bytes], *, as_pixels: bool
) -> tuple[dict[str, Picture], list[str]]:
    """Return the images by address, and the addresses of those that cannot be shown."""
    from ragflow_lg.integrations.documents.images import read_data_address, read_picture
    from ragflow_lg.integrations.documents.markdown_document import find_parts

    pictures: dict[str, Picture] = {}
    unshown: list[str] = []
    for address in dict.fromkeys(address for _, _, (address, _) in find_parts(blocks, "Image")):
        content = images.get(address) or read_data_address(address)
        if not content:
            continue
        picture = read_picture(content, as_pixels=as_pixels)
        if picture is None:
            unshown.append(address[:100])
        else:
            pictures[address] = picture
    return pictures, unshown


_PAGE = Path(__file__).with_name("report_page.html").read_text("utf-8")
"""The page runs no scripts and loads nothing, even if it is opened from a server that others trust."""


def _write_html(blocks: list[Element], text: str, timestamp: str, pictures: Mapping[str, Picture]) -> bytes:
    from ragflow_lg.integrations.documents.languages import main_language
    from ragflow_lg.integrations.documents.markdown_document import DocumentWriter, title_of

    language = main_language(text)
    addresses = {address: picture.data_address for address, picture in pictures.items()}
    body = DocumentWriter("html5", addresses, language).write(blocks, "--mathml", "--syntax-highlighting=none")
    head = _PAGE.format(
        language=language or "en",
        title=html.escape(title_of(blocks) or "Document"),
        timestamp=f"<p>{html.escape(timestamp)}</p>" if timestamp else "",
    )
    return head.encode() + body + b"</body></html>\n"
