"""Reports as Word documents: what Pandoc writes, with the page, the styles, the header and the footer of the layout."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragflow_lg.integrations.documents.images import Picture
from ragflow_lg.integrations.documents.languages import LANGUAGES
from ragflow_lg.integrations.documents.markdown_document import DocumentWriter, Element, title_of
from ragflow_lg.integrations.documents.report_settings import ReportSettings
from ragflow_lg.services.reports import Layout

_PAPERS_MM = {"a4": (210.0, 297.0), "a5": (148.0, 210.0), "us-letter": (215.9, 279.4), "us-legal": (215.9, 355.6)}
_MARGIN_MM = 25.4
_MAX_TITLE_CHARS = 255
_CODE_FAMILY = "DejaVu Sans Mono"
_PARTS = Path(__file__).with_name("docx_parts.xml").read_text("utf-8")
"""A text along a path, as Word writes it, borders and the head of a table, and a field."""

_PLACE = (
    "position:absolute;margin-left:0;margin-top:0;width:{:.0f}pt;height:{:.0f}pt;rotation:315;z-index:-251654144;"
    "mso-position-horizontal:center;mso-position-horizontal-relative:margin;"
    "mso-position-vertical:center;mso-position-vertical-relative:margin"
)


def write_docx(
    blocks: list[Element], layout: Layout, pictures: Mapping[str, Picture], settings: ReportSettings
) -> bytes:
    """Return the file."""
    import docx
    from docx.shared import Mm

    addresses = {address: picture.data_address for address, picture in pictures.items()}
    content = DocumentWriter("docx", addresses).write(blocks, "--syntax-highlighting=none")
    document: Any = docx.Document(io.BytesIO(content))
    section = document.sections[0]
    width, height = _PAPERS_MM[settings.paper]
    section.page_width, section.page_height = Mm(width), Mm(height)
    section.left_margin = section.right_margin = section.top_margin = section.bottom_margin = Mm(_MARGIN_MM)
    document.core_properties.title = title_of(blocks)[:_MAX_TITLE_CHARS]
    _set_styles(document.styles, layout.font_size, settings.fonts)
    _set_languages(document.element)
    for shown in document.element.xpath(".//pic:cNvPr[@descr]"):
        shown.set("descr", "")  # Pandoc repeats the whole image in it
    _write_header(section, layout)
    _write_footer(section, layout, Mm(width - 2 * _MARGIN_MM))
    buffer = io.BytesIO()
    document.save(buffer)
    return buffer.getvalue()


def _set_styles(styles: Any, size: float, families: tuple[str, ...]) -> None:
    """Set the sizes as RAGFlow does: headings are 6, 4 and 2 points larger than the text."""
    from docx.oxml.ns import qn
    from docx.shared import Pt, RGBColor

    larger = {"Normal": 0, **{f"Heading {level}": max(0, 8 - 2 * level) for level in range(1, 7)}}
    for name, points in larger.items():
        font = styles[name].font
        font.size = Pt(size + points)
        if points:
            font.color.rgb = RGBColor(0x1F, 0x1F, 0x1F)
        if families:
            fonts = styles[name].element.get_or_add_rPr().get_or_add_rFonts()
            fonts.attrib.clear()
            for script in ("ascii", "hAnsi", "eastAsia", "cs"):
                fonts.set(qn(f"w:{script}"), families[0])
    styles["Verbatim Char"].font.name = _CODE_FAMILY
    table = styles["Table"].element
    for old in table.xpath("./w:tblPr | ./w:tblStylePr"):
        table.remove(old)
    table.extend([_part("tblPr"), _part("tblStylePr")])


def _set_languages(body: Any) -> None:
    """Mark languages where Word looks for them, to choose the font of Chinese characters."""
    from docx.oxml.ns import qn

    for mark in body.xpath(".//w:rPr/w:lang[@w:val]"):
        language = LANGUAGES[mark.attrib.pop(qn("w:val"))]
        code = f"{language.code}-{language.region}" if language.region else language.code
        mark.set(qn("w:eastAsia" if language.region else "w:bidi"), code)


def _part(name: str) -> Any:
    from docx.oxml import parse_xml

    parts: Any = parse_xml(_PARTS)
    return parts.find(f"{{*}}{name}")


def _write_header(section: Any, layout: Layout) -> None:
    if not (layout.header or layout.watermark):
        return
    paragraph = section.header.paragraphs[0]
    _add_small(paragraph, layout.header)
    if layout.watermark:
        picture = _part("pict")
        shape = picture[-1]
        width = min(480.0, max(120.0, 45.0 * len(layout.watermark)))
        shape.set("style", _PLACE.format(width, min(120.0, 1.7 * width / len(layout.watermark))))
        shape[-1].set("string", layout.watermark)
        paragraph.add_run()._r.append(picture)


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
        for name, separator in (("PAGE", " / "), ("NUMPAGES", "")):
            paragraph._p.append(_part("r"))
            paragraph._p.xpath(".//w:instrText")[-1].text = f" {name} "
            _make_small(paragraph.runs[-1])
            _add_small(paragraph, separator)


def _add_small(paragraph: Any, text: str) -> None:
    _make_small(paragraph.add_run(text))


def _make_small(run: Any) -> None:
    from docx.shared import Pt, RGBColor

    run.font.size, run.font.color.rgb = Pt(9), RGBColor(0x59, 0x59, 0x59)
