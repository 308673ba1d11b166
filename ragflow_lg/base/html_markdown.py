"""Conversion of HTML to Markdown, or to clean HTML."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Literal, TypeAlias
from urllib.parse import urljoin

from ragflow_lg.base.html_text import parse_page

PageFormat: TypeAlias = Literal["html", "markdown"]

MAX_DEPTH = 20
"""Maximum depth of nested lists and quotations that is shown."""

_HIDDEN = frozenset({"head", "iframe", "noscript", "script", "style", "svg", "template", "title"})
_BLOCKS = frozenset({
    *("address", "article", "aside", "blockquote", "body", "br", "caption", "center", "dd", "details", "div", "dl"),
    *("dt", "fieldset", "figcaption", "figure", "footer", "form", "header", "hr", "legend", "li", "main", "nav", "ol"),
    *("p", "pre", "section", "summary", "table", "tbody", "thead", "tfoot", "tr", "ul", *(f"h{n}" for n in "123456")),
})  # fmt: skip
_KEPT = {"a": ("href",), "img": ("src", "alt"), "td": ("colspan", "rowspan"), "th": ("colspan", "rowspan")}
_VOID = frozenset({"br", "hr", "img"})
_CLEAN = _BLOCKS | frozenset(["a", "b", "code", "em", "i", "img", "span", "strong", "sub", "sup", "td", "th"])


def convert_page(page: str, url: str, to: PageFormat) -> str:
    """Return a page as Markdown with absolute links, or as HTML without scripts and styles.

    The page is read as a stream of tags in linear time. This function is CPU-bound; call it in a thread.

    Raises:
        ValueError: if the page is too long.
    """
    builder = _Html(url) if to == "html" else _Markdown(url)
    parse_page(page, builder)
    return builder.text()


def _absolute(url: str, link: str) -> str:
    try:
        target = urljoin(url, link.strip())
    except ValueError:
        return ""
    return target.replace(" ", "%20") if target.startswith(("http://", "https://", "mailto:")) else ""


class _Html:
    """Writes the tags that carry meaning, without most attributes."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._parts: list[str] = []
        self._hidden = 0

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if self._hidden or tag in _HIDDEN:
            self._hidden += 1
        elif tag in _CLEAN:
            values = {name: attributes[name] for name in _KEPT.get(tag, ()) if name in attributes}
            links = {name: _absolute(self._url, values[name]) for name in ("href", "src") if name in values}
            shown = "".join(f' {name}="{html.escape(value)}"' for name, value in {**values, **links}.items())
            self._parts.append(f"<{tag}{shown}>")

    def end(self, tag: str) -> None:
        if self._hidden:
            self._hidden -= 1
        elif tag in _CLEAN and tag not in _VOID:
            self._parts.append(f"</{tag}>")

    def data(self, text: str) -> None:
        if not self._hidden:
            self._parts.append(html.escape(text, quote=False))

    def comment(self, text: str) -> None:
        """Ignore comments."""

    def close(self) -> None:
        """Do nothing; `text` returns the result."""

    def text(self) -> str:
        lines = "".join(self._parts).splitlines()
        return "\n".join(line for line in lines if line.strip()).strip()


class _Markdown:
    """Writes lines of Markdown."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._lines: list[str] = []
        self._parts: list[str] = []
        self._prefix = ""
        self._lists: list[int] = []
        """For each open list, the number of its last item; -1 for a list without numbers."""
        self._links: list[str] = []
        self._hidden = self._quotes = self._code = 0
        self._cells = -1
        """The number of cells in the current row of a table; -1 outside a row."""

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if self._hidden or tag in _HIDDEN:
            self._hidden += 1
            return
        if tag in _BLOCKS:
            self._start_block(tag)
        elif tag in ("td", "th"):
            self._parts.append(" | " if self._cells > 0 else "")
            self._cells += 1
        elif tag == "a":
            self._links.append(_absolute(self._url, attributes.get("href", "")))
            self._parts.append("[" if self._links[-1] else "")
        elif tag == "img" and (label := attributes.get("alt", "").strip()):
            source = _absolute(self._url, attributes.get("src", ""))
            self._parts.append(f"![{label}]({source})" if source else "")

    def _start_block(self, tag: str) -> None:
        self._break()
        match tag:
            case "h1" | "h2" | "h3" | "h4" | "h5" | "h6":
                self._prefix = "#" * int(tag[1]) + " "
            case "ul" | "ol":
                self._lists.append(0 if tag == "ol" else -1)
            case "li":
                self._prefix = self._next_item()
            case "blockquote":
                self._quotes += 1
            case "pre":
                self._add_line("```")
                self._code += 1
            case "tr":
                self._cells = 0
            case _:
                pass

    def end(self, tag: str) -> None:
        if self._hidden:
            self._hidden -= 1
            return
        match tag:
            case "a" if self._links:
                self._end_link(self._links.pop())
            case "pre" if self._code:
                self._break()
                self._code -= 1
                self._add_line("```")
            case "tr":
                self._end_row()
            case _ if tag in _BLOCKS:
                self._break()
            case _:
                pass
        if tag in ("ul", "ol") and self._lists:
            self._lists.pop()
        elif tag == "blockquote" and self._quotes:
            self._quotes -= 1

    def data(self, text: str) -> None:
        if not self._hidden:
            self._parts.append(text)

    def comment(self, text: str) -> None:
        """Ignore comments."""

    def close(self) -> None:
        self._break()

    def text(self) -> str:
        return "\n".join(self._lines).strip()

    def _end_link(self, link: str) -> None:
        if link and self._parts and self._parts[-1] == "[":
            self._parts.pop()  # a link without text
        elif link:
            self._parts.append(f"]({link})")

    def _next_item(self) -> str:
        indent = "  " * min(max(len(self._lists) - 1, 0), MAX_DEPTH)
        if self._lists and self._lists[-1] >= 0:
            self._lists[-1] += 1
            return f"{indent}{self._lists[-1]}. "
        return f"{indent}- "

    def _end_row(self) -> None:
        row = " ".join("".join(self._parts).split())
        self._parts.clear()
        if row:
            self._add_line(f"| {row} |")
            if not self._lines[-2:-1] or not self._lines[-2].startswith("|"):
                self._add_line("| " + " | ".join(["---"] * self._cells) + " |")
        self._cells = -1

    def _break(self) -> None:
        if self._cells >= 0:  # a table's row is one line
            self._parts.append(" ")
            return
        text = "".join(self._parts)
        self._parts.clear()
        if self._code:
            for line in text.strip("\n").splitlines():
                self._add_line(line.rstrip())
        elif line := " ".join(text.split()):
            self._add_line("> " * min(self._quotes, MAX_DEPTH) + self._prefix + line)
            self._prefix = ""

    def _add_line(self, line: str) -> None:
        self._lines.append(line)
