import io
import zipfile
from typing import Any

import docx
from hypothesis import given, settings
from hypothesis import strategies as st

from ragflow_lg.integrations.documents.report_settings import ReportSettings
from ragflow_lg.services.reports import Layout
from tests.integrations.documents import written
from tests.integrations.documents.written import EMPTY, HOSTILE_TEXTS, PLAIN


def write(text: str, layout: Layout = EMPTY, settings: ReportSettings = PLAIN) -> Any:
    return docx.Document(io.BytesIO(written.write(text, "docx", layout, settings)))


def test_paragraphs_have_styles_and_sizes() -> None:
    document = write("# A\n\nb **c** *d* ~~e~~ `f`\n\n### G", Layout(font_size=14))
    assert [(p.style.name, p.text) for p in document.paragraphs] == [
        ("Heading 1", "A"),
        ("First Paragraph", "b c d e f"),
        ("Heading 3", "G"),
    ]
    sizes = [document.styles[name].font.size.pt for name in ("Normal", "Heading 1", "Heading 2", "Heading 3")]
    assert sizes == [14, 20, 18, 16]
    runs = {run.text: run for run in document.paragraphs[1].runs}
    assert (runs["c"].bold, runs["d"].italic, runs["e"].font.strike) == (True, True, True)
    assert runs["f"].style.font.name == "DejaVu Sans Mono"
    assert document.core_properties.title == "A"


def test_a_table_has_its_cells_its_borders_and_a_repeated_head() -> None:
    document = write("| a | b |\n|---|--:|\n| 1 | **2** |")
    (table,) = document.tables
    assert [[cell.text for cell in row.cells] for row in table.rows] == [["a", "b"], ["1", "2"]]
    assert table.rows[0]._tr.xpath("./w:trPr/w:tblHeader")
    style = document.styles["Table"].element
    assert style.xpath("./w:tblPr/w:tblBorders/w:insideH")
    assert style.xpath("./w:tblStylePr[@w:type='firstRow']/w:rPr/w:b")
    assert table.cell(1, 1).paragraphs[0].alignment == 2


def test_lists_are_numbered_by_level_and_start_anew() -> None:
    document = write("1. a\n2. b\n   - c\n     1. d\n\ntext\n\n5. e")
    levels = [(p._p.xpath("./w:pPr/w:numPr/w:ilvl/@w:val") or [""])[0] for p in document.paragraphs]
    assert levels == ["0", "0", "1", "2", "", "0"]
    numbers = [(p._p.xpath("./w:pPr/w:numPr/w:numId/@w:val") or [""])[0] for p in document.paragraphs]
    assert len({*numbers}) == 5


def test_header_footer_watermark_and_page_numbers() -> None:
    section = write("a", Layout("The header", "The footer", "DRAFT", "Generated: 2026", True)).sections[0]
    assert section.header.paragraphs[0].text == "The header"
    assert section.footer.paragraphs[0].text == "The footer\tGenerated: 2026\t1 / 1"
    header, footer = section.header._element, section.footer._element
    assert header.xpath(".//*[local-name()='textpath']/@string") == ["DRAFT"]
    assert [text.text.strip() for text in footer.xpath(".//w:instrText")] == ["PAGE", "NUMPAGES"]


def test_images_links_and_formulas() -> None:
    text = "![x](a.png) ![y](b.svg) ![z](c.png) [l](https://a.b/?c=1&d) $a^2$ $\\foo$ \n\n$$\nb\n$$"
    document = write(text)
    assert len(document.inline_shapes) == 2
    assert "[z]" in document.paragraphs[0].text
    assert "\\foo" in document.paragraphs[0].text
    assert [link.address for link in document.paragraphs[0].hyperlinks] == ["https://a.b/?c=1&d"]
    assert len(document.element.xpath(".//m:oMath")) == 2
    assert len(document.element.xpath(".//m:oMathPara")) == 1
    assert document.element.xpath(".//wp:docPr/@descr") == ["x", "y"]
    names = zipfile.ZipFile(io.BytesIO(written.write(text, "docx"))).namelist()
    assert sum(name.endswith(".png") for name in names) == 2, "the drawing has become pixels"


def test_languages_and_directions_are_marked() -> None:
    document = write("日本語です\n\nمرحبا\n\nhello")
    properties = [p._p.xpath("./w:pPr/w:bidi") != [] for p in document.paragraphs]
    assert properties == [False, True, False]
    assert document.element.xpath(".//w:lang/@w:eastAsia") == ["ja-JP"]
    assert document.paragraphs[1].runs[0].font.rtl


def test_fonts_and_paper_of_the_settings() -> None:
    document = write("a", settings=ReportSettings(fonts=("Noto Sans CJK SC",), paper="us-letter"))
    fonts = document.styles["Normal"].element.rPr.rFonts
    assert {value for name, value in fonts.attrib.items() if not name.endswith("Theme")} == {"Noto Sans CJK SC"}
    assert round(document.sections[0].page_width.mm) == 216


TAGS = {
    *("document", "body", "p", "pPr", "pStyle", "numPr", "ilvl", "numId", "pBdr", "left", "bottom", "bidi", "jc"),
    *("r", "rPr", "rStyle", "rFonts", "b", "bCs", "i", "iCs", "strike", "rtl", "lang", "t", "br", "hyperlink"),
    *("tbl", "tblPr", "tblStyle", "tblW", "tblLook", "tblLayout", "tblGrid", "gridCol", "tr", "trPr", "tblHeader"),
    *("cnfStyle", "tc", "tcPr", "sectPr", "headerReference", "footerReference", "pgSz", "pgMar", "footnotePr"),
    *("numRestart", "pict", "rect", "oMath", "oMathPara", "f", "fPr", "type", "num", "den", "sSub", "sSup"),
    *("sSubSup", "sub", "sup", "e", "sty", "nor", "limUpp", "lim"),
    *("softHyphen", "noBreakHyphen", "tab", "cr"),  # Word has elements for these characters
}


@settings(max_examples=10, deadline=None)
@given(HOSTILE_TEXTS, st.text(max_size=20))
def test_text_never_becomes_markup(text: str, around: str) -> None:
    document = write(text, Layout(around, around, around, around))
    names = {str(element.tag).rpartition("}")[2] for element in document.element.iter()}
    assert names <= TAGS
    targets = [relation.target_ref for relation in document.part.rels.values() if relation.is_external]
    assert all(target.startswith(("https://", "http://", "mailto:")) for target in targets)
