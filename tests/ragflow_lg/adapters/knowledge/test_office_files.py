import importlib
import io
import sys
import zipfile
from typing import Any

import pytest

from ragflow_lg.adapters.knowledge import office_files
from ragflow_lg.adapters.knowledge.file_text import read_blocks
from ragflow_lg.base import zip_size
from ragflow_lg.base.errors import ServiceError

PARTS = (
    b"<</Type/Catalog/Pages 2 0 R>>",
    b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
    b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 300]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
    b"<</Length 46>>stream\nBT /F1 18 Tf 20 200 Td (Hello from page) Tj ET\nendstream",
    b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
)


def pdf() -> bytes:
    content, offsets = b"%PDF-1.4\n", b""
    for number, part in enumerate(PARTS, 1):
        offsets += b"%010d 00000 n \n" % len(content)
        content += b"%d 0 obj" % number + part + b"endobj\n"
    table = b"xref\n0 6\n0000000000 65535 f \n" + offsets
    return content + table + b"trailer<</Root 1 0 R/Size 6>>\nstartxref\n%d\n%%%%EOF" % len(content)


def docx() -> bytes:
    document: Any = importlib.import_module("docx").Document()
    document.add_heading("Guide", 1)
    document.add_paragraph("Some text.")
    table = document.add_table(rows=1, cols=2)
    table.rows[0].cells[0].text, table.rows[0].cells[1].text = "left", "right"
    return save(document)


def xlsx() -> bytes:
    book: Any = importlib.import_module("openpyxl").Workbook()
    book.active.title = "Prices"
    for row in (["item", "price"], ["lamp", 12], [None, None], ["desk", 80.5]):
        book.active.append(row)
    return save(book)


def save(document: Any) -> bytes:
    target = io.BytesIO()
    document.save(target)
    return target.getvalue()


def test_docx_has_headings_paragraphs_and_rows() -> None:
    blocks = read_blocks("a.docx", docx()).blocks
    assert [(b.text, b.heading) for b in blocks] == [("Guide", 1), ("Some text.", 0), ("left | right", 0)]


def test_xlsx_has_rows_with_column_names() -> None:
    blocks = read_blocks("a.xlsx", xlsx()).blocks
    assert [(b.text, b.page, b.first_line) for b in blocks] == [
        ("Prices", 1, 1),
        ("item: lamp; price: 12", 1, 2),
        ("item: desk; price: 80.5", 1, 4),
    ]


def test_pdf_has_text_with_pages() -> None:
    assert [(b.text, b.page) for b in read_blocks("a.pdf", pdf()).blocks] == [("Hello from page", 1)]


@pytest.mark.parametrize("name", ["a.docx", "a.pdf", "a.xlsx"])
def test_damaged_files_are_an_error_without_log_messages(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ServiceError, match=r"damaged|no text"):
        read_blocks(name, b"nonsense" if name == "a.pdf" else b"PK\x03\x04 nonsense")
    assert caplog.records == []


def test_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(ServiceError, match=r"openpyxl is not installed: pip install '[^']*\[documents\]'"):
        read_blocks("a.xlsx", b"")


def test_a_decompression_bomb_is_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b"0" * 2000)
    for limit in ("MAX_TREE_BYTES", "MAX_UNPACKED_BYTES"):
        monkeypatch.setattr(zip_size, limit, 1000)
        with pytest.raises(ServiceError, match="decompressed size"):
            read_blocks("a.docx", target.getvalue())


def with_part(file: bytes, name: str, content: str) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(file)) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        for part in old.namelist():
            new.writestr(part, content if part == name else old.read(part))
    return target.getvalue()


SHEET = (
    '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>{}</sheetData></worksheet>'
)
DOCUMENT = (
    '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body><w:tbl><w:tr><w:tc>'
    '<w:tcPr><w:gridSpan w:val="2000000000"/></w:tcPr><w:p/></w:tc></w:tr></w:tbl></w:body></w:document>'
)


@pytest.mark.parametrize("rows", ['<row><c r="XFD1"/></row>' * 100, '<row r="9999999999"><c r="A1"/></row>'])
def test_huge_cell_counts_are_rejected(rows: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(office_files, "MAX_CELLS", 100_000)
    with pytest.raises(ServiceError, match="more than 100,000 cells"):
        read_blocks("a.xlsx", with_part(xlsx(), "xl/worksheets/sheet1.xml", SHEET.format(rows)))
    with pytest.raises(ServiceError, match="more than 100,000 cells"):
        read_blocks("a.docx", with_part(docx(), "word/document.xml", DOCUMENT))
