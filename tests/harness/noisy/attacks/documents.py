"""Uploaded files that are small to send and large to read."""

import gzip
import io
import struct
import zipfile
import zlib

from tests.harness.noisy.attack import Attack, Attacker, by_file

MB = 1024 * 1024


def pdf(pages: int, content: bytes, *, is_packed: bool = True) -> bytes:
    """Return a PDF whose pages all have the same content."""
    data = zlib.compress(content, 9) if is_packed else content
    kids = " ".join(f"{number + 5} 0 R" for number in range(pages))
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Kids[{kids}]/Count {pages}>>".encode(),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        f"<</Length {len(data)}{'/Filter/FlateDecode' if is_packed else ''}>>stream\n".encode() + data + b"\nendstream",
    ]
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R/Resources<</Font<</F 3 0 R>>>>>>"
    return _join_objects([*objects, *[page] * pages])


def _join_objects(objects: list[bytes]) -> bytes:
    file, places = io.BytesIO(), list[int]()
    file.write(b"%PDF-1.4\n")
    for number, body in enumerate(objects, 1):
        places.append(file.tell())
        file.write(b"%d 0 obj\n%s\nendobj\n" % (number, body))
    start = file.tell()
    file.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    file.write(b"".join(b"%010d 00000 n \n" % place for place in places))
    file.write(b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, start))
    return file.getvalue()


def _pdf_of_pdfs() -> bytes:
    """Return a PDF whose pages contain each other."""
    objects = [b"<</Type/Catalog/Pages 2 0 R>>"]
    objects += [b"<</Type/Pages/Kids[%s]/Count 99999999>>" % (b"%d 0 R " % (n % 40 + 2) * 40) for n in range(2, 42)]
    return _join_objects(objects)


def _deep_pdf() -> bytes:
    return _join_objects([b"<</Type/Catalog/Pages 2 0 R/X " + b"[" * 500_000 + b"]" * 500_000 + b">>", b"<<>>"])


def _zip(files: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return file.getvalue()


_SHEETS = "application/vnd.openxmlformats-officedocument.spreadsheetml"
_TEXTS = "application/vnd.openxmlformats-officedocument.wordprocessingml"
_TYPES = f"""<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>
<Override PartName="/xl/workbook.xml" ContentType="{_SHEETS}.sheet.main+xml"/>
<Override PartName="/xl/sheet1.xml" ContentType="{_SHEETS}.worksheet+xml"/>
<Override PartName="/word/document.xml" ContentType="{_TEXTS}.document.main+xml"/></Types>""".encode()
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_MAIN = b'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
_WORD = b'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def _relations(kind: str, target: str) -> bytes:
    head = '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    return f'{head}<Relationship Id="r1" Type="{_OFFICE}/{kind}" Target="{target}"/></Relationships>'.encode()


def xlsx(sheet: bytes) -> bytes:
    """Return a workbook with the rows of one sheet."""
    book = b"<workbook %s xmlns:r='%s'><sheets><sheet name='a' sheetId='1' r:id='r1'/></sheets></workbook>"
    return _zip(
        {
            "[Content_Types].xml": _TYPES,
            "_rels/.rels": _relations("officeDocument", "xl/workbook.xml"),
            "xl/workbook.xml": book % (_MAIN, _OFFICE.encode()),
            "xl/_rels/workbook.xml.rels": _relations("worksheet", "sheet1.xml"),
            "xl/sheet1.xml": b"<worksheet %s><sheetData>%s</sheetData></worksheet>" % (_MAIN, sheet),
        }
    )


def docx(body: bytes) -> bytes:
    """Return a document with a body."""
    return _zip(
        {
            "[Content_Types].xml": _TYPES,
            "_rels/.rels": _relations("officeDocument", "word/document.xml"),
            "word/document.xml": b"<w:document %s><w:body>%s</w:body></w:document>" % (_WORD, body),
        }
    )


def _far_cells() -> bytes:
    return b"".join(b'<row r="%d"><c r="XFD%d"><v>1</v></c></row>' % (n, n) for n in range(1, 1200))


def _entities() -> bytes:
    definitions = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10 if n else "lol"}">' for n in range(12))
    return _zip(
        {
            "[Content_Types].xml": _TYPES,
            "_rels/.rels": _relations("officeDocument", "word/document.xml"),
            "word/document.xml": f"<!DOCTYPE x [{definitions}]><x>&a11;</x>".encode(),
        }
    )


def png(width: int, height: int) -> bytes:
    """Return an image whose header promises many points."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress(b"\0" * (4 * MB), 9)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def _shared_rows() -> bytes:
    return b"".join(b"<row><c t='inlineStr'><is><t>%s</t></is></c></row>" % (b"a" * 1000) for _ in range(200_000))


async def _upload_small(attacker: Attacker) -> None:
    await attacker.upload(f"{attacker.count()}.txt", b"words")


_OPERATORS = b"BT /F 1 Tf " + b"(a) Tj " * 200_000 + b"ET"
_PARAGRAPHS = b"<w:p><w:r><w:t>a</w:t></w:r></w:p>"

ATTACKS: list[Attack] = [
    by_file("pdf-operators", "a PDF of 11 KB with 200,000 operators", "a.pdf", lambda: pdf(1, _OPERATORS)),
    by_file("pdf-pages", "200 pages with 200,000 operators each", "a.pdf", lambda: pdf(200, _OPERATORS)),
    by_file("pdf-many-pages", "10,000 pages with 200,000 operators each", "a.pdf", lambda: pdf(10_000, _OPERATORS)),
    by_file("pdf-bomb", "a page of 500 MB in 500 KB", "a.pdf", lambda: pdf(1, b" " * (500 * MB))),
    by_file("pdf-cycle", "pages that contain each other", "a.pdf", _pdf_of_pdfs),
    by_file("pdf-deep", "a PDF with arrays nested 500,000 deep", "a.pdf", _deep_pdf),
    by_file("xlsx-far-cells", "1,200 cells in the last column", "a.xlsx", lambda: xlsx(_far_cells())),
    by_file(
        "xlsx-last-row",
        "a cell in the last row",
        "a.xlsx",
        lambda: xlsx(b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'),
    ),
    by_file("xlsx-bomb", "rows of 200 MB in 600 KB", "a.xlsx", lambda: xlsx(_shared_rows())),
    by_file("xlsx-cells", "3,000,000 empty cells", "a.xlsx", lambda: xlsx(b"<row>" + b"<c/>" * 3_000_000 + b"</row>")),
    by_file("docx-paragraphs", "2,000,000 paragraphs", "a.docx", lambda: docx(_PARAGRAPHS * 2_000_000)),
    by_file(
        "docx-deep",
        "elements nested 1,000,000 deep",
        "a.docx",
        lambda: docx(b"<w:p>" * 1_000_000 + b"</w:p>" * 1_000_000),
    ),
    by_file(
        "docx-tables",
        "tables nested 3,000 deep",
        "a.docx",
        lambda: docx(b"<w:tbl><w:tr><w:tc>" * 3000 + b"</w:tc></w:tr></w:tbl>" * 3000),
    ),
    by_file("docx-entities", "entities of entities", "a.docx", _entities),
    by_file("zip-bomb", "a part of 2 GB in 2 MB", "a.docx", lambda: _zip({"word/document.xml": b"\0" * (900 * MB)})),
    by_file("html-deep", "HTML nested 500,000 deep", "a.html", lambda: b"<div>" * 500_000),
    by_file(
        "html-attributes", "a tag with 500,000 attributes", "a.html", lambda: b"<p " + b"a='b' " * 500_000 + b">x</p>"
    ),
    by_file(
        "html-comments", "500,000 beginnings of comments", "a.html", lambda: b"<!-" * 500_000 + b"<![CDATA[" * 300_000
    ),
    by_file("csv-columns", "2,000,000 columns", "a.csv", lambda: b"a," * 2_000_000 + b"\n" + b"1," * 2_000_000),
    by_file("csv-quotes", "8 MB of quotation marks", "a.csv", lambda: b'"' * (8 * MB)),
    by_file("json-deep", "JSON nested 4,000,000 deep", "a.json", lambda: b"[" * 4_000_000),
    by_file("json-numbers", "JSON with 4,000,000 numbers", "a.json", lambda: b"[" + b"1," * 4_000_000 + b"1]"),
    by_file("jsonl", "1,000,000 lines of JSON", "a.jsonl", lambda: b'{"a":1}\n' * 1_000_000),
    by_file("text-lines", "9,000,000 empty lines", "a.md", lambda: b"\n" * 9_000_000),
    by_file("text-headings", "2,000,000 headings", "a.md", lambda: b"# a\n" * 2_000_000),
    by_file("text-odd", "text that is no text", "a.txt", lambda: b"\xff\xfe" + b"\xd8\x00" * 4_000_000),
    by_file("png-large", "an image of 60,000 × 60,000 points", "a.png", lambda: png(60_000, 60_000)),
    by_file("gzip", "a text of 200 MB in a gzip file", "a.txt.gz", lambda: gzip.compress(b"a" * (200 * MB))),
    Attack("small-files", "thousands of small uploads", _upload_small, at_once=8),
]
