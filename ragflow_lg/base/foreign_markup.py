"""HTML and XML from outside: lines of text, records of a page, and trees that load nothing."""

from __future__ import annotations

import html
import importlib
from collections.abc import Mapping
from typing import Any

from ragflow_lg.base.extras import require

MAX_HTML_CHARS = 4 * 1024 * 1024
"""Maximum length of a page, in characters."""

_HIDDEN = {"head", "noscript", "script", "style", "svg", "template", "title"}
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_TABLE_PARTS = {"caption", "table", "tbody", "td", "tfoot", "th", "thead", "tr"}
_SPANS = ("colspan", "rowspan")
_BLOCKS = {
    *("address", "article", "aside", "blockquote", "body", "br", "center", "dd", "details", "dialog", "div", "dl"),
    *("dt", "fieldset", "figcaption", "figure", "footer", "form", "header", "hgroup", "hr", "legend", "li", "main"),
    *("menu", "nav", "ol", "option", "p", "pre", "section", "summary", "ul", *_HEADINGS),
}


def html_to_text(page: str) -> str:
    """Return the text of a page: one line per block, ``#`` before headings, and each table as plain markup on one line.

    The format follows RAGFlow's ``deepdoc/parser/html_parser.py``. The page is read as a stream of tags in linear time.
    A parser that builds HTML5 trees is unsuitable: it turns 90 kB of misnested ``font`` and ``table`` tags into eight
    million nodes. This function is CPU-bound; call it in a thread.

    Raises:
        ValueError: if the page is longer than `MAX_HTML_CHARS`.
    """
    check_length(page)
    require("html", "Reading web pages")
    builder = _Lines()
    etree: Any = importlib.import_module("lxml.etree")  # slow to import and untyped
    parser = etree.HTMLParser(target=builder, encoding="utf-8", huge_tree=True)
    parser.feed(b"<body>" + page.encode("utf-8", "replace"))
    parser.close()
    return "\n".join(builder.lines)


def check_length(page: str) -> None:
    """Check the length of a page.

    Raises:
        ValueError: if it is longer than `MAX_HTML_CHARS`.
    """
    if len(page) > MAX_HTML_CHARS:
        raise ValueError(f"a page of {len(page):,} characters, of which at most {MAX_HTML_CHARS:,} can be read")


class _Lines:
    """Collects lines from lxml's parser events; the parser closes every tag that it opens."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._parts: list[str] = []
        self._prefix = ""
        self._hidden = 0
        self._tables = 0

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if self._hidden or tag in _HIDDEN:
            self._hidden += 1
            return
        if tag == "table":
            if not self._tables:
                self._break()
            self._tables += 1
        if self._tables:
            self._parts.append(_opening(tag, attributes) if tag in _TABLE_PARTS else _gap(tag))
        elif tag in _BLOCKS:
            self._break()
            self._prefix = _HEADINGS.get(tag, self._prefix)

    def end(self, tag: str) -> None:
        if self._hidden:
            self._hidden -= 1
        elif self._tables:
            self._parts.append(f"</{tag}>" if tag in _TABLE_PARTS else _gap(tag))
            if tag == "table":
                self._tables -= 1
                if not self._tables:
                    self._break()
        elif tag in _BLOCKS:
            self._break()
            self._prefix = "" if tag in _HEADINGS else self._prefix

    def data(self, text: str) -> None:
        if not self._hidden:
            self._parts.append(html.escape(text, quote=False) if self._tables else text)

    def comment(self, text: str) -> None:
        """Ignore comments."""

    def close(self) -> None:
        self._break()

    def _break(self) -> None:
        line = " ".join("".join(self._parts).split())
        self._parts.clear()
        if line:
            self.lines.append(self._prefix + line)


def _gap(tag: str) -> str:
    return " " if tag in _BLOCKS else ""


def _opening(tag: str, attributes: Mapping[str, str]) -> str:
    spans = "".join(f' {name}="{html.escape(attributes[name])}"' for name in _SPANS if name in attributes)
    return f"<{tag}{spans}>"


def read_html_records(page: str, begins: str, fields: Mapping[str, str]) -> tuple[list[dict[str, str]], set[str]]:
    """Return the records of a page and the classes that occur in it.

    An element with the class ``begins`` begins a record. ``fields`` maps the classes of elements inside it, or after
    it, to the names of their texts; ``href`` is the first link. This function is CPU-bound; call it in a thread.

    Raises:
        ValueError: if the page is longer than `MAX_HTML_CHARS`.
    """
    check_length(page)
    require("html", "Reading web pages")
    library: Any = importlib.import_module("lxml.html")
    tree = library.document_fromstring(
        b"<body>" + page.encode("utf-8", "replace"), library.HTMLParser(encoding="utf-8")
    )
    records: list[dict[str, str]] = []
    found: set[str] = set()
    for element in tree.iter("*"):
        classes = element.get("class", "").split()
        found.update(classes)
        if begins in classes:
            records.append({"href": "", **dict.fromkeys(fields.values(), "")})
        if not records:
            continue
        if element.tag == "a" and not records[-1]["href"]:
            records[-1]["href"] = element.get("href", "")
        for name in (fields[each] for each in classes if each in fields):
            records[-1][name] = " ".join(element.text_content().split())
    return records, found


MAX_XML_CHARS = 8 * 1024 * 1024


def parse_xml(text: str, root: str) -> Any:
    """Return the root element (of lxml), whose name must be ``root``.

    This function is CPU-bound; call it in a thread.

    Raises:
        ValueError: if the text is too long, not XML or another document, or declares entities.
    """
    if len(text) > MAX_XML_CHARS:
        raise ValueError(f"{len(text):,} characters; the limit is {MAX_XML_CHARS:,}")
    etree: Any = importlib.import_module("lxml.etree")  # slow to import and untyped
    parser = etree.XMLParser(
        encoding="utf-8", resolve_entities=False, load_dtd=False, no_network=True, huge_tree=False, remove_comments=True
    )
    try:
        element = etree.fromstring(text.encode("utf-8", "replace"), parser)
    except etree.XMLSyntaxError as error:
        raise ValueError(f"invalid XML: {str(error)[:200]}") from None
    declared = element.getroottree().docinfo.internalDTD
    if element.tag != root or (declared is not None and any(True for _ in declared.iterentities())):
        raise ValueError("an unexpected XML document")
    return element
