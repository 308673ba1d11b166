"""Reports as Word documents: page size, styles, header, footer and watermark."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

from ragflow_lg.adapters.reports.docx_blocks import DocxWriter
from ragflow_lg.adapters.reports.docx_elements import add_field, add_watermark
from ragflow_lg.adapters.reports.images import Picture
from ragflow_lg.adapters.reports.report_settings import ReportSettings
from ragflow_lg.adapters.reports.report_tree import Block, Heading, plain_text
from ragflow_lg.services.reports import Layout

_PAPERS_MM = {"a4": (210.0, 297.0), "a5": (148.0, 210.0), "us-letter": (215.9, 279.4), "us-legal": (215.9, 355.6)}
_MARGIN_MM = 25.4
_MAX_TITLE_CHARS = 255


def write_docx(
    blocks: Sequence[Block], layout: Layout, pictures: Mapping[str, Picture], settings: ReportSettings
) -> bytes:
    """Return the file."""
    import docx
    from docx.shared import Mm

    document: Any = docx.Document()
    section = document.sections[0]
    width, height = _PAPERS_MM[settings.paper]
    section.page_width, section.page_height = Mm(width), Mm(height)
    section.left_margin = section.right_margin = section.top_margin = section.bottom_margin = Mm(_MARGIN_MM)
    _set_styles(document, layout.font_size, settings.fonts)
    title = next((plain_text(block.content) for block in blocks if isinstance(block, Heading)), "")
    document.core_properties.title = title[:_MAX_TITLE_CHARS]
    document.core_properties.comments = ""
    document.core_properties.author = ""
    text_width = Mm(width - 2 * _MARGIN_MM)
    DocxWriter(document, pictures, text_width).write_blocks(blocks)
    _write_header(section, layout)
    _write_footer(section, layout, text_width)
    buffer = io.BytesIO()
    document.save(buffer)
    return buffer.getvalue()


def _set_styles(document: Any, size: float, families: Sequence[str]) -> None:
    """Set the sizes as RAGFlow does: headings are 6, 4 and 2 points larger than the text."""
    from docx.shared import Pt, RGBColor

    for name, larger in (("Normal", 0), *((f"Heading {level}", max(0, 8 - 2 * level)) for level in range(1, 7))):
        font = document.styles[name].font
        font.size = Pt(size + larger)
        if name != "Normal":
            font.color.rgb = RGBColor(0x1F, 0x1F, 0x1F)
        if families:
            fonts = document.styles[name].element.get_or_add_rPr().get_or_add_rFonts()
            fonts.attrib.clear()
            add_fonts(fonts, families[0])


def add_fonts(element: Any, family: str) -> None:
    """Set the family for all scripts in an element ``w:rFonts``."""
    from docx.oxml.ns import qn

    for script in ("ascii", "hAnsi", "eastAsia", "cs"):
        element.set(qn(f"w:{script}"), family)


def _write_header(section: Any, layout: Layout) -> None:
    if not (layout.header or layout.watermark):
        return
    paragraph = section.header.paragraphs[0]
    _add_small(paragraph, layout.header)
    if layout.watermark:
        add_watermark(paragraph.add_run()._r, layout.watermark)


def _write_footer(section: Any, layout: Layout, width: int) -> None:
    from docx.enum.text import WD_TAB_ALIGNMENT

    if not (layout.footer or layout.timestamp or layout.has_page_numbers):
        return
    paragraph = section.footer.paragraphs[0]
    stops = paragraph.paragraph_format.tab_stops
    stops.add_tab_stop(width // 2, WD_TAB_ALIGNMENT.CENTER)
    stops.add_tab_stop(width, WD_TAB_ALIGNMENT.RIGHT)
    _add_small(paragraph, f"{layout.footer}\t{layout.timestamp}\t")
    if layout.has_page_numbers:
        for instruction, separator in (("PAGE", " / "), ("NUMPAGES", "")):
            add_field(lambda text: _add_small(paragraph, text)._r, instruction)
            _add_small(paragraph, separator)


def _add_small(paragraph: Any, text: str) -> Any:
    from docx.shared import Pt, RGBColor

    run = paragraph.add_run(text)
    run.font.size, run.font.color.rgb = Pt(9), RGBColor(0x59, 0x59, 0x59)
    return run
