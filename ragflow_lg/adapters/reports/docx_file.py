"""Reports as Word documents: their blocks, page size, styles, header, footer and watermark."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ragflow_lg.adapters.reports import report_tree as tree
from ragflow_lg.adapters.reports.docx_elements import (
    MAX_LEVEL,
    add_element,
    add_field,
    add_formula,
    add_watermark,
    define_lists,
    order_properties,
    start_list,
)
from ragflow_lg.adapters.reports.images import Picture
from ragflow_lg.adapters.reports.languages import LANGUAGES, is_right_to_left, language_of
from ragflow_lg.adapters.reports.report_settings import ReportSettings
from ragflow_lg.adapters.reports.typst_compiler import CODE_FAMILY, draw_picture
from ragflow_lg.services.reports import Layout

_EMU_PER_PIXEL = 9525
_HYPERLINK = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/hyperlink"


class _Style(NamedTuple):
    is_strong: bool = False
    is_emphasis: bool = False
    is_struck: bool = False
    is_link: bool = False


class InlineWriter:
    """Adds inline content to paragraphs of one document."""

    def __init__(self, document: Any, pictures: Mapping[str, Picture], width: int) -> None:
        self._document = document
        self._pictures = pictures
        self._width = width

    def write(self, paragraph: Any, content: Sequence[tree.Inline], *, is_strong: bool = False) -> None:
        """Add content to a paragraph."""
        self._write(paragraph, paragraph._p, content, _Style(is_strong))

    def write_code(self, paragraph: Any, text: str) -> None:
        """Add code to a paragraph, with its line breaks."""
        self._add_run(paragraph, paragraph._p, text, _Style(), is_code=True)

    def _write(self, paragraph: Any, parent: Any, content: Sequence[tree.Inline], style: _Style) -> None:
        for part in content:
            if isinstance(part, tree.Text | tree.Code):
                self._add_run(paragraph, parent, part.text, style, is_code=isinstance(part, tree.Code))
            elif isinstance(part, tree.Styled):
                inner = style._replace(**{_FLAGS[part.style]: True})
                self._write(paragraph, parent, part.content, inner)
            elif isinstance(part, tree.Link):
                link = self._add_link(paragraph, parent, part.address)
                self._write(paragraph, link, part.content, style._replace(is_link=True))
            elif isinstance(part, tree.Image):
                self._add_image(paragraph, parent, part, style)
            elif isinstance(part, tree.LineBreak):
                self._add_run(paragraph, parent, "\n", style)
            else:
                self._add_math(paragraph, parent, part, style)

    def _add_run(self, paragraph: Any, parent: Any, text: str, style: _Style, *, is_code: bool = False) -> Any:
        from docx.shared import RGBColor

        run = paragraph.add_run(text)
        if run._r.getparent() is not parent:
            parent.append(run._r)
        font = run.font
        font.bold, font.italic, font.strike = (
            style.is_strong or None,
            style.is_emphasis or None,
            style.is_struck or None,
        )
        if is_code:
            font.name = CODE_FAMILY
        if style.is_link:
            font.color.rgb, font.underline = RGBColor(0x1A, 0x4F, 0x9C), True
        _set_language(run, text)
        return run

    def _add_link(self, paragraph: Any, parent: Any, address: str) -> Any:
        from docx.oxml.ns import qn

        link = add_element(parent, "w:hyperlink")
        link.set(qn("r:id"), paragraph.part.relate_to(address, _HYPERLINK, is_external=True))
        return link

    def _add_image(self, paragraph: Any, parent: Any, image: tree.Image, style: _Style) -> None:
        picture = self._pictures.get(image.address)
        is_known = picture is not None and picture.type in ("png", "jpeg", "gif")
        content = None if picture is None else picture.content if is_known else draw_picture(picture)
        if picture is None or content is None:
            self._add_run(paragraph, parent, f"[{image.description or 'image'}]", style._replace(is_emphasis=True))
            return
        width = min(self._width, picture.width * _EMU_PER_PIXEL)
        run = self._add_run(paragraph, parent, "", style)
        shape = run.add_picture(io.BytesIO(content), width=width)
        shape._inline.docPr.set("descr", image.description)

    def _add_math(self, paragraph: Any, parent: Any, math: tree.Math, style: _Style) -> None:
        if math.formula is None:
            self._add_run(paragraph, parent, math.latex, style, is_code=True)
        else:
            add_formula(parent, math.formula, is_block=math.is_block)


_FLAGS = {"emphasis": "is_emphasis", "strong": "is_strong", "strike": "is_struck"}


def _set_language(run: Any, text: str) -> None:
    """Mark a run's language, by which Word chooses the font for Chinese characters, and its direction."""
    if is_right_to_left(text):
        run.font.rtl = True
    language = LANGUAGES.get(language_of(text))
    if language is not None:
        code = f"{language.code}-{language.region}" if language.region else language.code
        add_element(run._r.get_or_add_rPr(), "w:lang", {"w:eastAsia" if language.region else "w:bidi": code})


_FIRST_LIST = 9001
_INDENT_TWIPS = 360
_ALIGNMENTS: Mapping[tree.Alignment, str] = {"left": "left", "center": "center", "right": "right"}


class _Place(NamedTuple):
    """Where a block is: the lists and quotations around it, and the list whose item it starts."""

    lists: int = 0
    quotes: int = 0
    list_number: int = 0
    is_tight: bool = False


class DocxWriter:
    """Adds blocks to a document. Lists and quotations are paragraphs with an indent, as in Word."""

    def __init__(self, document: Any, pictures: Mapping[str, Picture], width: int) -> None:
        self._document = document
        self._width = width
        self._inline = InlineWriter(document, pictures, width)
        self._numbering = document.part.numbering_part.element
        self._lists = 0
        define_lists(self._numbering)

    def write_blocks(self, blocks: Sequence[tree.Block], place: _Place | None = None) -> None:
        """Add blocks at the end of the document."""
        place = place or _Place()
        for block in blocks:
            self._write(block, place)
            place = place._replace(list_number=0)

    def _write(self, block: tree.Block, place: _Place) -> None:
        if isinstance(block, tree.Paragraph):
            self._write_paragraph(block.content, place)
        elif isinstance(block, tree.Heading):
            self._write_paragraph(block.content, place, f"Heading{block.level}")
        elif isinstance(block, tree.CodeBlock):
            self._write_code(block, place)
        elif isinstance(block, tree.Quote):
            self.write_blocks(block.blocks, place._replace(quotes=place.quotes + 1))
        elif isinstance(block, tree.ItemList):
            self._write_list(block, place)
        elif isinstance(block, tree.Table):
            self._write_table(block)
        else:
            paragraph = self._add_paragraph(place)
            self._add_border(paragraph, "bottom", "999999")
            order_properties(paragraph._p.pPr)

    def _add_paragraph(self, place: _Place, style: str = "") -> Any:
        paragraph = self._document.add_paragraph()
        if style:
            paragraph._p.style = style  # an id: looking for a name takes longer than the rest
        properties = paragraph._p.get_or_add_pPr()
        if place.list_number:
            numbering = add_element(properties, "w:numPr")
            add_element(numbering, "w:ilvl", {"w:val": str(min(place.lists - 1, MAX_LEVEL))})
            add_element(numbering, "w:numId", {"w:val": str(place.list_number)})
        elif place.lists + place.quotes:
            paragraph.paragraph_format.left_indent = (place.lists + place.quotes) * _INDENT_TWIPS * 635
        if place.quotes:
            self._add_border(paragraph, "left", "BBBBBB")
        if place.is_tight:
            paragraph.paragraph_format.space_after = 0
        return paragraph

    def _write_paragraph(self, content: Sequence[tree.Inline], place: _Place, style: str = "") -> None:
        paragraph = self._add_paragraph(place, style)
        if is_right_to_left(tree.plain_text(content)):
            add_element(paragraph._p.get_or_add_pPr(), "w:bidi")
        order_properties(paragraph._p.get_or_add_pPr())
        self._inline.write(paragraph, content)

    def _write_code(self, block: tree.CodeBlock, place: _Place) -> None:
        paragraph = self._add_paragraph(place)
        properties = paragraph._p.get_or_add_pPr()
        add_element(properties, "w:shd", {"w:val": "clear", "w:color": "auto", "w:fill": "F2F2F2"})
        order_properties(properties)
        self._inline.write_code(paragraph, block.text)

    def _write_list(self, block: tree.ItemList, place: _Place) -> None:
        self._lists += 1
        number = _FIRST_LIST + self._lists
        start_list(self._numbering, number, block.start)
        for item in block.items:
            inner = _Place(place.lists + 1, place.quotes, number, block.is_tight)
            self.write_blocks(item.blocks or (tree.Paragraph(()),), inner)

    def _write_table(self, block: tree.Table) -> None:
        table = self._document._body.add_table(0, len(block.alignments), self._width)
        table._tbl.tblStyle_val = "TableGrid"
        for number, row in enumerate((block.head, *block.rows)):
            for alignment, content, cell in zip(block.alignments, row, table.add_row().cells, strict=True):
                paragraph = cell.paragraphs[0]
                properties = paragraph._p.get_or_add_pPr()
                if is_right_to_left(tree.plain_text(content)):
                    add_element(properties, "w:bidi")
                if alignment:
                    add_element(properties, "w:jc", {"w:val": _ALIGNMENTS[alignment]})
                self._inline.write(paragraph, content, is_strong=not number)
        add_element(table.rows[0]._tr.get_or_add_trPr(), "w:tblHeader")
        self._document.add_paragraph().paragraph_format.space_after = 0

    def _add_border(self, paragraph: Any, side: str, color: str) -> None:
        borders = add_element(paragraph._p.get_or_add_pPr(), "w:pBdr")
        add_element(borders, f"w:{side}", {"w:val": "single", "w:sz": "6", "w:space": "4", "w:color": color})


_PAPERS_MM = {"a4": (210.0, 297.0), "a5": (148.0, 210.0), "us-letter": (215.9, 279.4), "us-legal": (215.9, 355.6)}
_MARGIN_MM = 25.4
_MAX_TITLE_CHARS = 255


def write_docx(
    blocks: Sequence[tree.Block], layout: Layout, pictures: Mapping[str, Picture], settings: ReportSettings
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
    document.core_properties.title = tree.title_of(blocks)[:_MAX_TITLE_CHARS]
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
