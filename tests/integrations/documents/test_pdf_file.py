import io
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pypdf import PdfReader

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.extras import find_cjk_font
from ragflow_lg.integrations.documents import typst_compiler
from ragflow_lg.integrations.documents.languages import LANGUAGES, describe_missing, is_right_to_left, language_of
from ragflow_lg.integrations.documents.markdown_document import DocumentWriter
from ragflow_lg.integrations.documents.report_settings import ReportSettings
from ragflow_lg.services.reports import Layout
from tests.harness.rows import each_row, read_rows
from tests.integrations.documents.written import EMPTY, HOSTILE_TEXTS, PLAIN, write_with_warnings

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
    content, warnings = write_with_warnings(text, "pdf", layout, settings)
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
    parts = ("Title", "strong", "#hash $5.", "Revenue", "2.4", "1. First", "nested", "def greet(): ...", "\\foo{x}")
    assert [part for part in parts if part not in shown] == []
    assert (len(reader.pages), warnings) == (1, [])
    fonts = " ".join(fonts_of(reader))
    names = ("LibertinusSerif-Regular", "LibertinusSerif-Bold", "DejaVuSansMono", "NewCMMath")
    assert [name for name in names if name not in fonts] == []
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


@each_row("text", ["中文", "かな", "한국어"])
def test_the_font_of_the_extra_needs_no_system_font(text: str) -> None:
    if find_cjk_font() is None:
        pytest.skip("The extra cjk is not installed.")
    reader, warnings = write(f"A {text}")
    assert warnings == []
    assert text in reader.pages[0].extract_text()
    assert any("NotoSansCJK" in font for font in fonts_of(reader))


def test_a_formula_that_typst_refuses_does_not_cost_the_document(monkeypatch: pytest.MonkeyPatch) -> None:
    math: Any = getattr(DocumentWriter, "_math")  # noqa: B009

    def refuse(writer: DocumentWriter, content: Any) -> list[Any]:
        (part,) = math(writer, content)
        return [{"t": "RawInline", "c": ["typst", "#panic()"]}] if part["t"] == "Math" else [part]

    monkeypatch.setattr(DocumentWriter, "_math", refuse)
    reader, (warning,) = write("a $x^2$ b")
    assert "a x^2 b" in reader.pages[0].extract_text()
    assert warning.startswith("Formulas are shown as their source")


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


FORMULAS = r"""
a+1 \sin a \text{if a} \frac{a}{b} \binom{a}{b} \sqrt{a} \sqrt[3]{a} a_1^2 \hat{a} \vec a \overline{a} \left(a\right)
\left.a\right| \begin{pmatrix}a&b\end{pmatrix} \begin{cases}a&1\\b&2\end{cases} a\quad b \sum_{i=1}^n \lim_{x\to0}
\underbrace{x}_y \mathbb{R} \begin{array}{lr}a&b\end{array}
\text{"#panic()"} \mathrm{d}x \ne \le \alpha \# \$ \% \_ ; , //
"""


def test_formulas_are_typeset() -> None:
    text = "\n\n".join(f"${part}$" for part in FORMULAS.split("\n") if part)
    reader, warnings = write(f"{text}\n\n$${FORMULAS}$$")
    assert warnings == []
    assert "\\frac" not in reader.pages[0].extract_text()


@settings(max_examples=10, deadline=None)
@given(st.lists(HOSTILE_TEXTS, max_size=20))
def test_typst_accepts_every_text(texts: list[str]) -> None:
    _, warnings = write("\n".join(texts))
    assert not [warning for warning in warnings if "Formulas" in warning]


@each_row("text", read_rows("typst_code"))
def test_code_is_shown(text: str) -> None:
    reader, warnings = write(f"a\n\n{text}\n\nz")
    assert reader.pages[0].extract_text().split()[-1] == "z"
    assert warnings == []


@each_row("mark", ["**a**", "[a](https://b)", "`` ` ``"])
@each_row("text", [".yaml", ".at(panic())", "&#46;b", "...", "(b)", "{b}", ";b", "&lbrack;b]"])
def test_a_text_after_a_style_is_not_its_code(mark: str, text: str) -> None:
    reader, warnings = write(f"{mark}{text}")
    assert reader.pages[0].extract_text().endswith(unescape(text))
    assert warnings == []


@each_row("text", ["- 5", "+ 5", "/ 5", "/ a: b", "= 5", "== 5", "1. a", "/", "-", "&period;b", "-5 a - b"])
@each_row("around", ["| a |\n|--|\n| {} |", "- {}"])
def test_marks_in_cells_and_items_stay_text(text: str, around: str) -> None:
    marked = re.sub(r"(?<!\w)(?=[-+/=])|(?=\. )", r"\\", text)
    reader, warnings = write(around.format(marked))
    assert reader.pages[0].extract_text().replace("\u2212", "-").endswith(unescape(text))
    assert warnings == []


def test_lists_have_the_direction_of_their_text() -> None:
    reader, _ = write("- مرحبا\n  - hello\n\n| عربي |\n|---|\n| a |\n\ntext")
    words = reader.pages[0].extract_text()
    assert words.count("•") + words.count("‣") == 2
    assert words.endswith("text")


def test_tables_that_need_too_much_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragflow_lg.integrations.documents.pdf_file.MAX_TABLE_CELLS", 9)
    with pytest.raises(ServiceError, match="The tables have 10 cells, more than the 9 that fit into a PDF"):
        write("> | a | b |\n> |---|---|\n" + "> | c | d |\n" * 4)


@each_row("code", LANGUAGES)
def test_each_language_is_recognised_by_its_letters(code: str) -> None:
    assert language_of(f"abc {LANGUAGES[code].sample}") == code


@each_row("text", ["", "abc", "ÄÖü", "привет", "→ ∑"])
def test_other_texts_have_no_language_of_their_own(text: str) -> None:
    assert language_of(text) == ""
    assert not is_right_to_left(text)


@each_row(("text", "expected"), [("م", True), ("12 שלום a", True), ("a م", False), ("漢", False)])
def test_the_first_letter_decides_the_direction(text: str, expected: bool) -> None:
    assert is_right_to_left(text) is expected


def test_missing_characters_are_named_once_and_not_all() -> None:
    sentence = describe_missing("ก" + "".join(chr(code) for code in range(0x4E00, 0x4E20)) + "ก")
    assert "ก 一" in sentence
    assert "and 23 more" in sentence
    assert "Noto Sans Thai for Thai (Debian: fonts-noto-core)" in sentence
    assert describe_missing("ᚠ").count("a font that has them") == 1
