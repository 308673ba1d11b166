"""PDF files: text, pages and fonts, read by pypdf."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pypdf import PdfReader

from ragflow_lg.adapters.reports import typst_compiler
from ragflow_lg.adapters.reports.images import Picture, read_picture
from ragflow_lg.adapters.reports.markdown_reader import read_markdown
from ragflow_lg.adapters.reports.pdf_file import write_pdf
from ragflow_lg.adapters.reports.report_settings import ReportSettings
from ragflow_lg.adapters.reports.typst_compiler import draw_picture
from ragflow_lg.base.cjk_font import find_cjk_font
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.services.reports import Layout
from tests.fakes.images import PNG

EMPTY = Layout()
PLAIN = ReportSettings(system_fonts=False)
TEXT = """# Title

A paragraph with **strong** text, `code` and #hash $5.

| Quarter | Revenue |
|:--------|--------:|
| Q1      | 2.4     |

1. First
   - nested

```python
def greet(): ...
```

$$\\frac{a}{b}$$ and $\\foo{x}$
"""


def write(text: str, layout: Layout = EMPTY, settings: ReportSettings = PLAIN) -> tuple[PdfReader, list[str]]:
    pictures = {"a.png": picture} if (picture := read_picture(PNG)) else {}
    content, warnings = write_pdf(read_markdown(text), text, layout, pictures, settings)
    return PdfReader(io.BytesIO(content)), warnings


def fonts_of(reader: PdfReader) -> set[str]:
    """Return the names of the fonts without their prefixes."""
    names: set[str] = set()
    for page in reader.pages:
        resources: Any = page["/Resources"]
        fonts: dict[str, Any] = resources.get("/Font", {})
        names |= {str(font.get_object()["/BaseFont"]).rpartition("+")[2].lstrip("/") for font in fonts.values()}
    return names


def test_the_text_is_there_in_its_fonts() -> None:
    reader, warnings = write(TEXT)
    shown = reader.pages[0].extract_text()
    for words in (
        "Title",
        "strong",
        "#hash $5.",
        "Revenue",
        "2.4",
        "1. First",
        "nested",
        "def greet(): ...",
        "\\foo{x}",
    ):
        assert words in shown
    assert (len(reader.pages), warnings) == (1, [])
    fonts = " ".join(fonts_of(reader))
    assert all(
        name in fonts for name in ("LibertinusSerif-Regular", "LibertinusSerif-Bold", "DejaVuSansMono", "NewCMMath")
    )
    assert reader.metadata is not None
    assert reader.metadata.title == "Title"


def test_pages_have_header_footer_watermark_time_and_numbers() -> None:
    layout = Layout("The header", "The footer", "DRAFT", "Generated: 2026-01-02 03:04:05", True, 14)
    reader, _ = write("\n\n".join(f"Paragraph {number}" for number in range(120)), layout)
    count = len(reader.pages)
    assert count > 2
    for number, page in enumerate(reader.pages, 1):
        shown = page.extract_text()
        for words in ("The header", "The footer", "DRAFT", "Generated: 2026-01-02 03:04:05", f"{number} / {count}"):
            assert words in shown


def test_a_larger_size_takes_more_pages_and_paper_is_chosen() -> None:
    text = "\n\n".join(f"Paragraph {number}" for number in range(120))
    small, large = (write(text, Layout(font_size=size))[0] for size in (12, 24))
    assert len(small.pages) < len(large.pages)
    letter, _ = write("a", settings=ReportSettings(system_fonts=False, paper="us-letter"))
    assert [round(float(side)) for side in letter.pages[0].mediabox[2:]] == [612, 792]


def test_an_image_of_the_files_is_shown_and_others_are_their_text() -> None:
    reader, _ = write("![one](a.png)\n\n![two](b.png)\n\n![three](/etc/passwd)")
    assert len(reader.pages[0].images) == 1
    assert "[two]" in reader.pages[0].extract_text()
    assert "[three]" in reader.pages[0].extract_text()


@pytest.fixture
def without_cjk_font(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    typst_compiler.open_fonts.cache_clear()
    monkeypatch.setattr(typst_compiler, "find_cjk_font", lambda: None)
    yield
    typst_compiler.open_fonts.cache_clear()


@pytest.mark.usefixtures("without_cjk_font")
@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("中文", "Noto Sans CJK SC for Chinese (Debian: fonts-noto-cjk)"),
        ("かな", "Noto Sans CJK JP for Japanese (Debian: fonts-noto-cjk)"),
        ("한국어", "Noto Sans CJK KR for Korean (Debian: fonts-noto-cjk)"),
        ("ไทย", "Noto Sans Thai for Thai (Debian: fonts-noto-core)"),
    ],
)
def test_missing_fonts_are_named(text: str, advice: str) -> None:
    reader, (warning,) = write(f"A {text}")
    assert len(reader.pages) == 1
    assert advice in warning
    assert text[0] in warning
    assert "font_folders" in warning


@pytest.mark.parametrize("text", ["中文", "かな", "한국어"])
def test_the_font_of_the_extra_needs_no_system_font(text: str) -> None:
    if find_cjk_font() is None:
        pytest.skip("The extra cjk is not installed.")
    reader, warnings = write(f"A {text}")
    assert warnings == []
    assert text in reader.pages[0].extract_text()
    assert any("NotoSansCJK" in font for font in fonts_of(reader))


def test_a_formula_that_typst_refuses_does_not_cost_the_document(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*arguments: object, **options: object) -> str:
        return "math.frac()"

    monkeypatch.setattr("ragflow_lg.adapters.reports.typst_source.typst_equation", refused)
    reader, (warning,) = write("a $x^2$ b")
    assert "a x^2 b" in reader.pages[0].extract_text()
    assert warning.startswith("Formulas are shown as their source")


def test_a_few_arabic_letters_do_not_turn_the_page() -> None:
    text = "A long English text with the word مرحبا in it, and other words after it."
    reader, _ = write(text, Layout(footer="Footer", has_page_numbers=True))
    places: list[float] = []

    def visit(shown: str, _: object, matrix: list[float], *__: object) -> None:
        if shown.strip().startswith("Footer"):
            places.append(matrix[4])

    reader.pages[0].extract_text(visitor_text=visit)
    assert places
    assert places[0] < 100, "the footer is on the left"


def test_a_family_that_does_not_exist_is_named() -> None:
    reader, (warning,) = write("a", settings=ReportSettings(system_fonts=False, fonts=("Nowhere Sans",)))
    assert "'Nowhere Sans'" in warning
    assert "LibertinusSerif-Regular" in " ".join(fonts_of(reader))


NOTO = Path("/usr/share/fonts/opentype/noto")


@pytest.mark.skipif(not (NOTO / "NotoSerifCJK-Regular.ttc").exists(), reason="needs Debian's fonts-noto-cjk")
def test_a_folder_of_fonts_is_used_for_each_language() -> None:
    settings = ReportSettings(system_fonts=False, font_folders=(str(NOTO),))
    reader, warnings = write("漢字です。\n\n这是中文。\n\n한국어입니다.", settings=settings)
    assert warnings == []
    fonts = " ".join(fonts_of(reader))
    assert all(name in fonts for name in ("NotoSerifCJKjp", "NotoSerifCJKsc", "NotoSerifCJKkr"))
    assert "这是中文" in reader.pages[0].extract_text()


def test_a_damaged_image_does_not_cost_the_document() -> None:
    picture = Picture(PNG[:40], "png", 1, 1)
    content, _ = write_pdf(read_markdown("a ![x](a.png)"), "", Layout(), {"a.png": picture}, PLAIN)
    assert "a" in PdfReader(io.BytesIO(content)).pages[0].extract_text()


@pytest.mark.parametrize("address", ["/a.png", "a.png", "file:///a.png", "../a.png", "http://127.0.0.1/a.png"])
def test_a_drawing_cannot_refer_to_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    monkeypatch.chdir(tmp_path)
    drawing = f'<svg xmlns="http://www.w3.org/2000/svg"><image href="{address}" width="9" height="9"/></svg>'
    assert draw_picture(Picture(drawing.encode(), "svg", 9, 9)) is None


def test_a_drawing_becomes_pixels_for_targets_that_need_them() -> None:
    drawing = b'<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20"><rect width="40" height="20"/></svg>'
    content = draw_picture(Picture(drawing, "svg", 40, 20))
    assert content is not None
    picture = read_picture(content)
    assert picture is not None
    assert picture.type == "png"
    assert picture.width > picture.height > 0


def test_tables_that_need_too_much_memory_are_refused_at_once() -> None:
    table = "> | a | b |\n> |---|---|\n" + "> | c | d |\n" * 12_500
    with pytest.raises(ServiceError, match="The tables have 25,002 cells, more than the 25,000 that fit into a PDF"):
        write(table)
