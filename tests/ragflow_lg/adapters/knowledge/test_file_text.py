import base64
import importlib
import io
import re
import time
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest

from ragflow_lg.adapters.knowledge import attachments, file_text
from ragflow_lg.adapters.knowledge.file_chunks import split_file
from ragflow_lg.adapters.knowledge.file_text import FileText, Page, read_file, read_sidecar
from ragflow_lg.adapters.workers.worker_pool import WorkerPool
from ragflow_lg.base import extras
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.spreadsheets import reading
from ragflow_lg.base.tokens import estimate_tokens
from ragflow_lg.services.workers import NoWorkers
from tests.fakes.images import GIF, JPEG, PNG, WEBP
from tests.harness.rows import each_row, read_rows

FIXTURES = Path(__file__).parents[3] / "fixtures" / "documents"


def pdf(shown: bytes = b"(Hello from page) Tj") -> bytes:
    """Return a PDF with one page; what it shows is compressed."""
    stream = zlib.compress(b"BT /F1 18 Tf 20 200 Td " + shown + b" ET", 9)
    content, places = b"%PDF-1.4\n", b""
    for number, part in enumerate(
        (
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 300]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
            b"<</Length %d/Filter/FlateDecode>>stream\n%s\nendstream" % (len(stream), stream),
            b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        ),
        1,
    ):
        places += b"%010d 00000 n \n" % len(content)
        content += b"%d 0 obj%sendobj\n" % (number, part)
    table = b"xref\n0 6\n0000000000 65535 f \n" + places
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


def read(name: str, content: str | bytes) -> list[Page]:
    return [*read_file(name, content if isinstance(content, bytes) else content.encode()).pages]


@each_row(
    ("name", "content", "expected"),
    [
        ("a.txt", "one\r\ntwo\r\rthree", "one\ntwo\n\nthree"),
        ("a.HTML", "<h2>Head</h2><p>one<p>two<script>x</script>", "## Head\none\ntwo"),
        ("a.csv", 'name;city\nAda;"Lyon;\nFR"\n\nBo;\n', "\n\nname: Ada; city: Lyon; FR\n\nname: Bo"),
        ("a.csv", "name,city\n", "name city"),
        ("a.tsv", "name\tcity\nAda\tLyon\tx\n", "\nname: Ada; city: Lyon; x"),
        ("a.json", '{"a": "\\u4f60", "b": [null]}', '{\n"a": "你",\n"b": [\nnull\n]\n}'),
        ("a.jsonl", '{"a": "\\u4f60"}\n\n{"a": 2}', '{"a": "你"}\n\n{"a": 2}'),
        ("a.txt", "上海办公室的年假制度".encode("gb18030"), "上海办公室的年假制度"),
        ("a.txt", "é".encode("utf-16"), "é"),
        ("a.txt", b"\xef\xbb\xbfx", "x"),
    ],
)
def test_supported_files_become_text(name: str, content: str | bytes, expected: str) -> None:
    (page,) = read(name, content)
    text = "\n".join(filter(None, page.text.split("\n"))) if name == "a.HTML" else page.text
    assert text == expected


def test_documents_have_headings_rows_pages_and_sheets() -> None:
    assert read_file("a.docx", docx()) == FileText([Page("# Guide\nSome text.\nleft | right")], {}, True)
    assert "five flats" in read("a.pdf", pdf(rb"(\256ve \257ats) Tj"))[0].text
    (page,) = read("a.pdf", pdf())
    assert page == Page("Hello from page", 1)
    assert read("a.xlsx", xlsx()) == [Page("\nitem: lamp; price: 12\n\nitem: desk; price: 80.5", 1, "Prices")]
    chunks = split_file(read_file("a.xlsx", xlsx()), 16, 0)
    assert [(c.content, c.positions) for c in chunks] == [
        ("Prices\nitem: lamp; price: 12\n\nitem: desk; price: 80.5", [[1, 0, 0, 2, 4]])
    ]


def read_fixture(name: str) -> list[Page]:
    return read(name, (FIXTURES / name).read_bytes())


def test_a_sheet_has_its_titles_columns_and_formulas() -> None:
    """Its title is merged, two columns have the same name, and no program has computed the formulas."""
    sales, empty, numbers = read_fixture("report.xlsx")
    assert (sales.title, sales.text.split("\n")) == (
        "Sales",
        [
            *("Quarterly report", "Status: final", "", ""),
            "Region: North; Year: 2025; Sales: 10; Sales (2): 12; Total: =C5+D5 (not computed)",
            "Region: South; Year: 2025; Sales: 7; Sales (2): 9; Total: =C6+D6 (not computed)",
        ],
    )
    assert numbers == Page("\nItem: Lamp; 12", 4, "Numbers"), "the sheet before it is hidden"
    assert split_file(FileText([empty]), 100, 0) == []


@each_row(
    ("rows", "expected"),
    [
        ([["Title"], ["a", "b"]], "Title\na b"),
        ([["Title"], ["", 2024, 2025], ["North", 1, 2]], "Title\n\nNorth; 2024: 1; 2025: 2"),
        ([["name"], ["Ada", 12]], "\nname: Ada; 12"),
        ([["only"], ["one"], ["column"]], "\nonly: one\nonly: column"),
        (
            [["Product", "Price"], ["Tea", "2,50 EUR", "n/a", "old", "x"], ["Coffee", "3 EUR"]],
            "\nProduct: Tea; Price: 2,50 EUR; n/a; old; x\nProduct: Coffee; Price: 3 EUR",
        ),
        ([["Staff"], ["Name", "E-mail"], [*"abcde"]], "Staff\n\nName: a; E-mail: b; c; d; e"),
        ([["By", "Ada"], [None], ["Name", *"wxyz"], [*"abcde"]], "By Ada\n\n\nName: a; w: b; x: c; y: d; z: e"),
    ],
)
def test_the_row_with_the_columns_is_found(rows: list[list[Any]], expected: str) -> None:
    book: Any = importlib.import_module("openpyxl").Workbook()
    for row in rows:
        book.active.append(row)
    assert read("a.xlsx", save(book))[0].text == expected


def test_a_pdf_has_no_page_numbers_running_heads_and_split_words() -> None:
    pages = read_fixture("manual.pdf")
    text = "\n".join(page.text for page in pages)
    assert len(pages) >= 6
    assert "Press 2000, page 3" in text, "it is not only a page number"
    assert text.count("Operating manual of the press") == 1
    assert not re.search(r"-\n(?!Press)\w", text)
    for word in ("Chapter 3", "well-known", "availability", "electricity supply"):
        assert word in text
    assert pages[0].text.count("\n") == 16, "lines keep their numbers"


@each_row(
    ("pages", "expected"),
    [
        ([["1"], ["2"], ["3"]], "||"),
        ([["- 1 -", "a"], ["- 2 -", "b"]], "- 1 -,a|- 2 -,b"),
        ([["a", "Page 1 of 3"], ["b", "Page 2 of 3"], ["c", "Page 3 of 3"]], "a,|b,|c,"),
        ([["cover", "a"], ["第 1 页", "b"], ["第 2 页", "c"], ["第 3 页", "d"]], "cover,a|,b|,c|,d"),
        (
            [["Guide", *"abcdefghi", "x"], [*"abcdefghi", "x"], ["Guide", *"abcdefghi", "x"], ["Guide", "a", "x"]],
            "Guide,a,b,c,d,e,f,g,h,i,x|a,b,c,d,e,f,g,h,i,|,a,b,c,d,e,f,g,h,i,|,a,",
        ),
        ([["2019", "a"], ["2020", "b"], ["2021", "c"]], "2019,a|2020,b|2021,c"),
        ([["Week 1", "a"], ["Week 2", "b"], ["Week 3", "c"]], "Week 1,a|Week 2,b|Week 3,c"),
        ([["p. 1", "P1"], ["p. 2", "P2"], ["p. 3", "P3"]], ",P1|,P2|,P3"),
        ([["1/5", "a"], ["2/5", "b"], ["3/5", "c"]], "1/5,a|2/5,b|3/5,c"),
        ([["10 20"], ["11 20"], ["12 20"]], "10 20|11 20|12 20"),
        (
            [[f"0{n}.03.2026", "Turnover", f"{n}11 EUR", "Weather: sun"] for n in (1, 2, 3, 4)],
            "01.03.2026,Turnover,111 EUR,Weather: sun|02.03.2026,Turnover,211 EUR,Weather: sun|"
            "03.03.2026,Turnover,311 EUR,Weather: sun|04.03.2026,Turnover,411 EUR,Weather: sun",
        ),
        (
            [[f"Invoice 100{n}, due {n + 6}.50 EUR"] for n in range(1, 6)],
            "Invoice 1001, due 7.50 EUR|Invoice 1002, due 8.50 EUR|Invoice 1003, due 9.50 EUR|"
            "Invoice 1004, due 10.50 EUR|Invoice 1005, due 11.50 EUR",
        ),
    ],
)
def test_only_page_numbers_and_repeated_lines_at_the_edges_of_pages_are_removed(
    pages: list[list[str]], expected: str
) -> None:
    file_text._remove_running_lines(pages)  # pyright: ignore[reportPrivateUsage]
    assert "|".join(",".join(lines) for lines in pages) == expected


def test_slides_have_titles_paragraphs_and_tables() -> None:
    """The second slide is hidden, and the notes of the speaker are not read."""
    assert read_fixture("slides.pptx") == [
        Page("Wear a helmet.\nLeave by the stairs.", 1, "Safety at work"),
        Page("Floor | Exit\n1 | North", 3, "Exits"),
        Page("Thank you", 4),
    ]


def test_a_slide_is_read_once_and_its_long_title_does_not_precede_each_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    content = (FIXTURES / "slides.pptx").read_bytes()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        show, first = (archive.read(f"ppt/{name}.xml").decode() for name in ("presentation", "slides/slide1"))
    entry = '<p:sldId id="256" r:id="rId7"/>'
    repeated = with_part(content, "ppt/presentation.xml", show.replace(entry, entry * 100))
    assert read("a.pptx", repeated) == read("a.pptx", content)
    long = "Safety " * 100 + "at work"
    page = read("a.pptx", with_part(content, "ppt/slides/slide1.xml", first.replace("Safety at work", long)))[0]
    assert page == Page(f"{long}\nWear a helmet.\nLeave by the stairs.", 1)
    monkeypatch.setattr(file_text, "MAX_PAGES", 100)
    with pytest.raises(ServiceError, match="it has 103 slides, more than 100"):
        read("a.pptx", repeated)
    monkeypatch.setattr(file_text, "MAX_TEXT_CHARS", 30)
    with pytest.raises(ServiceError, match="more than 30 characters of text; split it"):
        read("a.pptx", content)


@each_row(
    ("declaration", "encoding"),
    [
        ('<?xml version="1.0" encoding="windows-1251"?>', "cp1251"),
        ("<meta charset=Shift_JIS>", "cp932"),
        ("<meta charset=iso-8859-1>", "utf-8"),
        ("<meta charset=latin1>", "utf-16"),
        ("", "gb18030"),
    ],
)
def test_a_page_declares_its_encoding(declaration: str, encoding: str) -> None:
    word = "上海办公室的年假制度" if encoding in ("gb18030", "utf-16") else "привет"
    (page,) = read("a.html", f"{declaration}<p>{word}".encode(encoding))
    assert page.text == word
    assert read_fixture("latin1.html")[0].text == "# Café Zürich\nCrêpes für 9 €"
    for wrong in (b"punycode", b"no-such", b"hex"):
        with pytest.raises(ServiceError, match="not UTF-8"):
            read("a.html", b"<meta charset=%s><p>caf\xe9 \xe9t\xe9" % wrong)


@each_row(
    ("name", "content", "problem"),
    [
        ("a.pptx", b"PK\x03\x04 nonsense", "damaged"),
        ("a.txt", b"a\0b", "binary"),
        ("a.txt", "é \xe9t\xe9 na\xefve".encode("latin-1"), "not UTF-8"),
        ("a.json", b"{", "not JSON"),
        ("a.json", b"[" * 200_000, "nested too deeply"),
        ("a.jsonl", b'{"a": 1}\n{', r"line 2"),
        ("a.exe", b"", r"\.exe are not supported"),
        ("a", b"", "without a suffix"),
        ("a.csv", b'"' + b"x" * 2_000_000, "not a valid table"),
        ("a.docx", b"PK\x03\x04 nonsense", "damaged"),
        ("a.xlsx", b"PK\x03\x04 nonsense", "damaged"),
        ("a.pdf", b"nonsense", "damaged|no text"),
    ],
)
def test_unreadable_files_are_an_error_with_the_reason(
    name: str, content: bytes, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ServiceError, match=problem):
        read_file(name, content)
    assert caplog.records == []


@each_row(
    ("name", "content"),
    [
        ("a.md", f"# a{' ' * 20_000}b\ntext"),
        ("a.md", f"# {'#' * 100_000}x\ntext"),
        ("a.md", "---\n" + "[" * 10_000 + "\n---\n"),
        ("a.md", "---\n" * 100_000),
        ("a.html", f"<p># {'#' * 100_000}x<p>text"),
        ("a.csv", f"{'n' * 100_000},b\n" + "x,y\n" * 2_000),
        ("a.csv", "," * 100_000 + "\n" + "x\n" * 2_000),
        ("a.json", f'{{"{"k" * 100_000}": [{"1," * 2_000}1]}}'),
        ("a.txt", "x" * 200_000),
        ("a.txt", "天" * 60_000),
        ("a.txt", "\n" * 200_000 + "x"),
        ("a.txt", "a b " * 50_000),
        ("a.html", "<meta " * 100_000),
    ],
)
def test_small_files_need_little_time_and_memory(name: str, content: str) -> None:
    start = time.process_time()
    chunks = split_file(read_file(name, content.encode()), 256, 32)
    assert sum(len(chunk.content) for chunk in chunks) < 1_000_000
    assert time.process_time() - start < 10


def test_patterns_need_linear_time() -> None:
    start = time.process_time()
    for pattern in (file_text._SPLIT_WORD, file_text._COMPOUND):  # pyright: ignore[reportPrivateUsage]
        for text in ("x" * 300_000, "x-" * 150_000, "xx-\n" * 100_000):
            pattern.sub("", text)
    for text in (b"<f " * 300_000, b"</f> <v> " * 100_000, b"<f/>" + b" " * 300_000):
        file_text._EMPTY_FORMULA.search(text)  # pyright: ignore[reportPrivateUsage]
    assert time.process_time() - start < 10


def test_large_texts_and_decompression_bombs_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b"0" * 2000)
    for limit in ("MAX_TREE_BYTES", "MAX_UNPACKED_BYTES"):
        monkeypatch.setattr(reading, limit, 1000)
        with pytest.raises(ServiceError, match="decompressed size"):
            read_file("a.docx", target.getvalue())
    monkeypatch.setattr(file_text, "MAX_TEXT_CHARS", 10)
    with pytest.raises(ServiceError, match="more than 10 characters of text; split it"):
        read("a.csv", "name\nvalue\nvalue\n")
    monkeypatch.setitem(extras.EXTRAS, "documents", ("no_such_library",))
    with pytest.raises(ServiceError, match=r"needs no_such_library. Install it with: pip install '[^']*\[documents\]'"):
        read_file("a.xlsx", b"")


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


@each_row("rows", ['<row><c r="XFD1"/></row>' * 100, '<row r="9999999999"><c r="A1"/></row>'])
def test_huge_cell_counts_are_rejected(rows: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_text, "MAX_CELLS", 100_000)
    with pytest.raises(ServiceError, match="more than 100,000 cells"):
        read_file("a.xlsx", with_part(xlsx(), "xl/worksheets/sheet1.xml", SHEET.format(rows)))
    with pytest.raises(ServiceError, match="more than 100,000 cells"):
        read_file("a.docx", with_part(docx(), "word/document.xml", DOCUMENT))


@each_row(("text", "metadata", "lines"), read_rows("front_matter"))
def test_front_matter_is_no_text_but_counts_for_line_numbers(text: str, metadata: dict[str, Any], lines: int) -> None:
    file = read_file("a.md", text.encode())
    assert file.metadata == metadata
    assert file.pages[0].text == "\n" * lines + "\n".join(text.split("\n")[lines:]).replace("\r", "")


def test_a_metadata_file_is_parsed() -> None:
    assert read_sidecar(b'{"a": "b", "n": [1, true], "none": null}') == {"a": "b", "n": [1, True]}
    for wrong in (b"[1]", b"{", b"\xff", b'{"a": {}}', b'{"a": [[1]]}', b"[" * 100_000):
        with pytest.raises(ServiceError, match=r"meta\.json"):
            read_sidecar(wrong)


def split(text: str, tokens: int = 100, overlap: int = 0, name: str = "a.md") -> list[tuple[str, list[int]]]:
    chunks = split_file(read_file(name, text.encode()), tokens, overlap)
    return [(chunk.content, [*chunk.positions[0][3:]]) for chunk in chunks]


def test_a_heading_starts_a_chunk_and_precedes_its_text() -> None:
    text = "# Guide #\n\nIntro.\n\n## Part\nOne.\n\n```\n# Two\n```\n# Other\n"
    assert split(text) == [
        ("Guide\nIntro.", [3, 3]),
        ("Guide > Part\nOne.\n\n```\n# Two\n```", [6, 10]),
        ("Other", [11, 11]),
    ]
    assert split("# No heading", name="a.txt") == [("# No heading", [1, 1])]
    pages = FileText([Page("One.\nTwo.", 1), Page("", 2), Page("\nThree.", 3)])
    positions = [(chunk.content, chunk.positions) for chunk in split_file(pages, 100, 0)]
    assert positions == [("One.\nTwo.", [[1, 0, 0, 1, 2]]), ("Three.", [[3, 0, 0, 2, 2]])]


@each_row(
    ("text", "contents"),
    [
        ("# Guide\n## Part\nOne.", ["Guide > Part\nOne."]),
        ("# Guide\n## Part\n## Other\nOne.", ["Guide > Part", "Guide > Other\nOne."]),
        ("# Guide\n## Part", ["Guide > Part"]),
        ("# Guide\n## File > Open\nOne.", ["Guide > File › Open\nOne."]),
        ("## Part\n# Guide\nOne.", ["Part", "Guide\nOne."]),
    ],
)
def test_a_title_is_no_chunk_if_the_chunks_below_it_begin_with_it(text: str, contents: list[str]) -> None:
    assert [content for content, _ in split(text)] == contents


def test_the_end_of_a_chunk_is_repeated_in_the_next() -> None:
    text = "First sentence of the text. Second sentence of it. Third one is here. Fourth one is last."
    first, second = (content for content, _ in split(text, 16, 6))
    assert first.endswith("Third one is here.") or first.endswith("Second sentence of it.")
    assert second.startswith(("Third one", "Second sentence"))
    assert [content for content, _ in split("a b c d. " * 4 + "\n\n" + "e f g h. " * 4, 12)] == [
        ("a b c d. " * 4).strip(),
        ("e f g h. " * 4).strip(),
    ]


def test_long_texts_are_split_at_sentences_or_anywhere_without_loss() -> None:
    for text in ("Some words. " * 500, "天地玄黄。" * 300, "x" * 5000, "word " * 2000, "天" * 2000):
        contents = [content for content, _ in split(text, 64)]
        assert max(map(estimate_tokens, contents)) <= 64
        assert "".join("".join(contents).split()) == "".join(text.split())


def test_chunks_of_a_long_paragraph_have_their_lines() -> None:
    text = "# Head\n\n" + "\n".join(f"line number {i} of them" for i in range(3, 41))
    for overlap in (0, 16):
        for content, (first, last) in split(text, 32, overlap):
            lines = content.split("\n")[1:]
            assert (lines[0].split()[2], lines[-1].split()[2]) == (str(first), str(last))


@each_row(
    ("name", "mime_type", "content", "type_"),
    [
        ("a.png", "image/png", PNG, "png"),
        ("a.PNG", "", PNG + b"appended", "png"),
        ("a", "image/jpeg", JPEG, "jpeg"),
        ("a.gif", "", GIF, "gif"),
        ("a.webp", "", WEBP, "webp"),
        ("a.png", "image/png", JPEG, "jpeg"),
    ],
)
async def test_the_bytes_of_an_image_decide_about_its_type(
    name: str, mime_type: str, content: bytes, type_: str
) -> None:
    uri = await attachments.file_text(NoWorkers(), name, mime_type, content)
    assert uri == f"data:image/{type_};base64,{base64.b64encode(content).decode()}"


@each_row("content", [b"", b"no image", b"\x89PNG", b"%PDF-1.4\n%%EOF", b"RIFF\0\0\0\0WAVE"])
async def test_what_is_no_image_is_refused(content: bytes) -> None:
    for name, mime_type in (("a.png", ""), ("b", "image/png")):
        with pytest.raises(
            ServiceError, match=f"'{name}' is not an image of a supported type \\(GIF, JPEG, PNG, WEBP\\)"
        ):
            await attachments.file_text(NoWorkers(), name, mime_type, content)


@each_row("content", [PNG[:-1], JPEG[:-2], GIF[:-1], WEBP[:-1]])
async def test_an_incomplete_image_is_refused(content: bytes) -> None:
    with pytest.raises(ServiceError, match=r"The image 'a\.png' is incomplete"):
        await attachments.file_text(NoWorkers(), "a.png", "", content)


async def test_documents_and_pages_become_text() -> None:
    here = NoWorkers()
    assert await attachments.file_text(here, "a.html", "text/html", b"<p>Hello</p><script>x</script>") == "Hello"
    assert await attachments.file_text(here, "a.py", "text/x-python", b"\xef\xbb\xbfx = 1\n") == "x = 1\n"
    for content in (b"\xff\xfe\x00x", b"a\0b"):
        with pytest.raises(ServiceError, match="is not UTF-8 text"):
            await attachments.file_text(here, "a.bin", "application/octet-stream", content)
    with pytest.raises(ServiceError, match="cannot be read"):
        await attachments.file_text(here, "a.docx", "", b"no zip")


async def test_a_document_that_takes_too_long_is_stopped_and_others_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = WorkerPool(size=2)
    begin = time.monotonic()
    monkeypatch.setattr(attachments.document_text, "seconds", 1.0)
    with pytest.raises(ServiceError, match=r"'slow\.pdf' cannot be read: Reading the file did not finish within 1 s"):
        await attachments.file_text(pool, "slow.pdf", "application/pdf", pdf(b"(Hello) Tj T* " * 200_000))

    assert time.monotonic() - begin < 10
    monkeypatch.undo()
    assert "Hello" in await attachments.file_text(pool, "fast.pdf", "application/pdf", pdf())
    await pool.aclose()
