import re
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.integrations.documents.markdown_document import (
    MAX_DEPTH,
    DocumentWriter,
    clean_text,
    find_parts,
    read_markdown,
)
from ragflow_lg.services.reports import Layout
from tests.harness.rows import each_row, read_rows
from tests.integrations.documents.written import HOSTILE_TEXTS, write

TAGS = {
    *("html", "head", "meta", "title", "style", "body", "p", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "code"),
    *("blockquote", "ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td", "hr", "em", "strong", "del", "a"),
    *("br", "img", "span", "div", "label", "input", "math", "semantics", "annotation", "mrow", "mi", "mn", "mo"),
    *("mtext", "mfrac", "msup", "msub", "msubsup", "mspace", "mstyle"),
}


@each_row(("markdown", "text"), read_rows("documents_as_text"))
def test_text_files(markdown: str, text: str) -> None:
    assert write(markdown, "txt").decode() == text


@each_row(
    ("text", "latex"),
    [
        ("$x^2$", ["x^2"]),
        ("\\( x \\) \\(y\\)", ["x", "y"]),
        ("$$\nx\n$$", ["x"]),
        ("\\[\nx\n\\]", ["x"]),
        ("\\[a\\\\[2pt]b\\]", ["a\\\\[2pt]b"]),
        ("\\(" * 20_000 + "x\\)", ["x"]),
        ("\\\\[" * 1_000 + "x\\]", []),
        ("\\begin{align*}a&=b\\end{align*}", ["\\begin{aligned}a&=b\\end{aligned}"]),
        ("costs $5 and $6", []),
        ("`$x$` `\\(x\\)` ``a ` \\(x\\)``", []),
        ("```\n\\(x\\)\n```\n\n~~~\n\\[x\\]", []),
    ],
)
def test_formulas(text: str, latex: list[str]) -> None:
    assert [source.strip() for _, source in find_parts(read_markdown(text), "Math")] == latex


@each_row("address", ["javascript:x", "file:///etc/passwd", "/api/v1/x", "data:text/html,x", "ftp://a"])
def test_only_web_addresses_are_links(address: str) -> None:
    assert write(f"[a]({address})", "html").count(b"<a") == 0


def test_characters_that_no_target_can_contain_are_removed() -> None:
    assert clean_text("a\x00\x1b\ud800\ufffe\r\nb\tc") == "a\nb\tc"


@pytest.mark.parametrize("mark", ["- ", "> "])
def test_nesting_has_a_limit(mark: str) -> None:
    for format_ in ("txt", "html", "docx", "pdf"):
        assert write(mark * MAX_DEPTH + "a", format_)
    for depth in (MAX_DEPTH + 1, 2_000):
        with pytest.raises(ServiceError, match="more than 25 levels deep"):
            write(mark * depth + "a", "txt")


class Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def parse(text: str) -> Parser:
    parser = Parser()
    parser.feed(write(text, "html", Layout(timestamp="Generated: <2026>")).decode())
    return parser


def test_a_page() -> None:
    text = "# A & B\n\nc **d** [e](https://f)\n\n1. g\n   - h\n\n| i |\n|--:|\n| j |\n\n"
    text += "```\n<k>\n```\n\n![l](a.png) ![m](b.png)"
    page = parse(text)
    tags = [tag for tag, _ in page.tags]
    for tag in ("h1", "strong", "a", "ol", "ul", "table", "th", "td", "pre", "img"):
        assert tag in tags
    shown = re.sub(r"\s+", " ", page.text)
    assert all(words in shown for words in ("A & B", "Generated: <2026>", "c d e", "<k>", "[m]")), shown
    images = [attributes["src"] for tag, attributes in page.tags if tag == "img"]
    assert len(images) == 1
    assert str(images[0]).startswith("data:image/png;base64,")
    assert any("default-src 'none'" in str(attributes.get("content")) for tag, attributes in page.tags if tag == "meta")


def test_languages_directions_and_formulas_of_a_page() -> None:
    page = parse("これは日本語です $\\frac{a}{b}$ $\\foo{x}$\n\nمرحبا\n\n- مرحبا\n  - hello")
    assert page.tags[0] == ("html", {"lang": "ja"})
    tags = [tag for tag, _ in page.tags]
    assert [tag for tag in tags if tag in ("math", "mfrac", "mi")] == ["math", "mfrac", "mi", "mi"]
    assert "\\foo{x}" in page.text
    assert [attributes["lang"] for tag, attributes in page.tags if tag == "span" and "lang" in attributes] == ["ar"] * 2
    assert [attributes.get("dir") for tag, attributes in page.tags if tag == "div"] == ["rtl", "rtl", "ltr"]


@settings(deadline=None, max_examples=10)
@given(HOSTILE_TEXTS)
def test_text_never_becomes_markup(text: str) -> None:
    page = parse(text)
    assert {tag for tag, _ in page.tags} <= TAGS
    names = {name for _, attributes in page.tags for name in attributes}
    assert not [name for name in names if name.startswith("on")]
    links = [str(attributes["href"]) for tag, attributes in page.tags if tag == "a"]
    assert all(link.startswith(("https://", "http://", "mailto:")) for link in links)


def test_pandoc_reads_no_files_even_if_a_document_names_them() -> None:
    blocks: list[Any] = [{"t": "Para", "c": [{"t": "Image", "c": [["", [], []], [], ["/etc/passwd", ""]]}]}]
    assert b"root:" not in DocumentWriter("html5", {"/etc/passwd": "/etc/passwd"}).write(blocks, "--embed-resources")
