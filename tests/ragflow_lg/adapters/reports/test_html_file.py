"""HTML pages: what browsers would parse from them."""

from html.parser import HTMLParser

from hypothesis import given, settings

from ragflow_lg.adapters.reports.html_file import write_html
from ragflow_lg.adapters.reports.images import read_picture
from ragflow_lg.adapters.reports.markdown_reader import read_markdown
from tests.fakes.images import PNG
from tests.ragflow_lg.adapters.reports.hostile_texts import HOSTILE_TEXTS

TAGS = {
    *("html", "head", "meta", "title", "style", "body", "p", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "code"),
    *("blockquote", "ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td", "hr", "em", "strong", "s", "a"),
    *("br", "img", "math", "mrow", "mi", "mn", "mo", "mtext", "mfrac", "msup", "msub", "msubsup", "mspace"),
    *("msqrt", "mroot", "mover", "munder", "munderover", "mtable", "mtr", "mtd"),
}


class Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def parse(text: str, timestamp: str = "") -> Parser:
    picture = read_picture(PNG)
    assert picture is not None
    parser = Parser()
    parser.feed(write_html(read_markdown(text), text, timestamp, {"a.png": picture}).decode())
    return parser


def test_a_page() -> None:
    text = "# A & B\n\nc **d** [e](https://f)\n\n1. g\n   - h\n\n| i |\n|--:|\n| j |\n\n"
    text += "```\n<k>\n```\n\n![l](a.png) ![m](b.png)"
    page = parse(text, "Generated: 2026")
    tags = [tag for tag, _ in page.tags]
    for tag in ("h1", "strong", "a", "ol", "ul", "table", "th", "td", "pre", "img"):
        assert tag in tags
    assert ("title", {}) in page.tags
    assert "Generated: 2026A & Bc d e" in page.text
    assert "<k>" in page.text
    assert "[m]" in page.text
    images = [attributes["src"] for tag, attributes in page.tags if tag == "img"]
    assert len(images) == 1
    assert str(images[0]).startswith("data:image/png;base64,")
    assert any("default-src 'none'" in str(attributes.get("content")) for tag, attributes in page.tags if tag == "meta")


def test_the_language_and_formulas() -> None:
    page = parse("日本語です $\\frac{a}{b}$")
    assert page.tags[0] == ("html", {"lang": "ja"})
    assert [tag for tag, _ in page.tags if tag.startswith("m") and tag not in ("meta", "mrow")] == [
        "math",
        "mfrac",
        "mi",
        "mi",
    ]


@settings(deadline=None)
@given(HOSTILE_TEXTS)
def test_text_never_becomes_markup(text: str) -> None:
    page = parse(text)
    assert {tag for tag, _ in page.tags} <= TAGS
    names = {name for _, attributes in page.tags for name in attributes}
    assert not [name for name in names if name.startswith("on")]
    links = [str(attributes["href"]) for tag, attributes in page.tags if tag == "a"]
    assert all(link.startswith(("https://", "http://", "mailto:")) for link in links)
