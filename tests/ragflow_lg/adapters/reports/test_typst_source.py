"""Text never becomes markup of Typst."""

import json
import re

import typst
from hypothesis import given, settings
from hypothesis import strategies as st

from ragflow_lg.adapters.reports.images import read_picture
from ragflow_lg.adapters.reports.markdown_reader import read_markdown
from ragflow_lg.adapters.reports.typst_source import TypstWriter, literal
from tests.fakes.images import PNG
from tests.harness.rows import each_row
from tests.ragflow_lg.adapters.reports.hostile_texts import HOSTILE_TEXTS

_LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
WORDS = frozenset(
    [
        "text",
        "par",
        "heading",
        "level",
        "list",
        "enum",
        "tight",
        "start",
        "true",
        "false",
        "raw",
        "block",
        "lang",
        "strong",
        "emph",
        "strike",
        "link",
        "box",
        "table",
        "columns",
        "align",
        "auto",
        "left",
        "center",
        "right",
        "stroke",
        "luma",
        "pt",
        "inset",
        "header",
        "linebreak",
        "line",
        "length",
        "set",
        "font",
        "region",
        "dir",
        "rtl",
        "em",
        "width",
        "y",
        "math",
        "equation",
        "display",
        "frac",
        "symbol",
        "attach",
        "b",
        "t",
        "op",
        "h",
        "lr",
        "mat",
        "delim",
        "none",
        "sqrt",
        "root",
        "limits",
        "accent",
        "grid",
        "baseline",
        "column",
        "gutter",
        "row",
        "overline",
        "underline",
        "overbrace",
        "underbrace",
    ]
)


def write(text: str) -> str:
    return TypstWriter({}, ["Libertinus Serif"], "").blocks(read_markdown(text))


@given(HOSTILE_TEXTS)
def test_outside_of_literals_there_are_only_words_of_the_writer(text: str) -> None:
    rest = _LITERAL.sub("", write(text))
    assert re.sub(r"[\s{}()\[\];:,.%#+\-\d]", " ", rest).split() == [
        word for word in re.sub(r"[\s{}()\[\];:,.%#+\-\d]", " ", rest).split() if word in WORDS
    ]
    assert rest.count("#") == rest.count("[#symbol(")


@settings(max_examples=30, deadline=None)
@given(st.lists(HOSTILE_TEXTS, min_size=10, max_size=30))
def test_a_literal_is_the_text(texts: list[str]) -> None:
    clean = [text.encode("utf-8", "ignore").decode() for text in texts]
    assert json.loads(typst.eval(b"", f"({', '.join(map(literal, texts))},)")) == clean


@settings(max_examples=20, deadline=None)
@given(st.lists(HOSTILE_TEXTS, max_size=20))
def test_typst_accepts_every_text(texts: list[str]) -> None:
    assert typst.compile(f"#{write(chr(10).join(texts))}".encode(), ignore_system_fonts=True).startswith(b"%PDF")


@each_row(
    "text",
    ['#read("/etc/passwd")', "$#panic()$", "@preview/a:1.0.0", "<label>", '#import "x.typ"', "```typst\n#panic()\n```"],
)
def test_code_is_shown(text: str) -> None:
    source = write(text)
    assert _LITERAL.sub("", source).count("panic") == 0
    assert typst.compile(f"#{source}".encode(), ignore_system_fonts=True)


def test_paragraphs_have_their_language_and_direction() -> None:
    families = ["Libertinus Serif", "Noto Serif CJK SC", "Noto Serif CJK JP", "Noto Naskh Arabic"]
    source = TypstWriter({}, families, "zh").blocks(read_markdown("中文\n\n日本語です\n\nمرحبا\n\nhello"))
    chinese, japanese, arabic, english = source.strip("{}\n").split("\n")
    assert chinese == 'par({text("中文")})'
    assert 'set text(font: ("Libertinus Serif", "Noto Serif CJK JP", "Noto Serif CJK SC"' in japanese
    assert 'lang: "ja", region: "JP"' in japanese
    assert 'lang: "ar"' in arabic
    assert "set text(dir: rtl)" in arabic
    assert english == 'par({text("hello")})'


def test_lists_and_tables_have_the_direction_of_their_text() -> None:
    writer = TypstWriter({}, ["Libertinus Serif"], "")
    source = writer.blocks(read_markdown("- مرحبا\n  - hello\n\n| عربي |\n|---|\n| a |\n\ntext\n\n- a\n  - مرحبا"))
    assert source.startswith("{\n{set text(dir: rtl); list(")
    assert source.count("set text(dir: ltr)") == 1, "the English item in the Arabic list"
    assert source.count("set text(dir: rtl)") == 3


def test_a_word_that_is_longer_than_a_line_can_be_broken() -> None:
    source = TypstWriter({}, ["Libertinus Serif"], "").blocks(read_markdown(f"{'a' * 60} {'b' * 59}"))
    assert source.count("\u200b") == 2
    assert "b" * 59 in source


def test_images_are_part_of_the_source() -> None:
    picture = read_picture(PNG)
    assert picture is not None
    source = TypstWriter({"a.png": picture}, ["Libertinus Serif"], "").blocks(read_markdown("![x](a.png) ![y](b.png)"))
    assert source.count("image(bytes(") == 1
    assert "[y]" in source
    assert "a.png" not in source
