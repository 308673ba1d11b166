"""Reports as a page of HTML: elements that are built as a tree, so that text never becomes markup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.etree.ElementTree import Element, SubElement, tostring

from ragflow_lg.adapters.reports.html_formula import mathml_element
from ragflow_lg.adapters.reports.images import Picture
from ragflow_lg.adapters.reports.languages import main_language
from ragflow_lg.adapters.reports.report_tree import (
    Block,
    Code,
    CodeBlock,
    Heading,
    Image,
    Inline,
    ItemList,
    LineBreak,
    Link,
    Math,
    Paragraph,
    Quote,
    Styled,
    Table,
    Text,
    plain_text,
)

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
"""The page runs no scripts and loads nothing, even if it is opened from a server that others trust."""

_STYLE = """
body{font-family:system-ui,sans-serif;line-height:1.5;max-width:48rem;margin:2rem auto;padding:0 1rem}
body{overflow-wrap:anywhere}
pre{background:#f5f5f5;padding:.8rem;overflow-x:auto}code{font-family:monospace}
table{border-collapse:collapse}td,th{border:1px solid #aaa;padding:.3rem .5rem}
blockquote{border-left:3px solid #bbb;margin-left:0;padding-left:1rem}img{max-width:100%}
"""
_TAGS = {"emphasis": "em", "strong": "strong", "strike": "s"}


def write_html(blocks: Sequence[Block], text: str, timestamp: str, pictures: Mapping[str, Picture]) -> bytes:
    """Return the page. ``text`` is the source of the blocks, for the language of the page."""
    page = Element("html", {"lang": main_language(text) or "en"})
    head = SubElement(page, "head")
    SubElement(head, "meta", {"charset": "utf-8"})
    SubElement(head, "meta", {"http-equiv": "Content-Security-Policy", "content": _POLICY})
    title = next((plain_text(block.content) for block in blocks if isinstance(block, Heading)), "")
    SubElement(head, "title").text = title or "Document"
    SubElement(head, "style").text = _STYLE
    writer = _HtmlWriter(pictures)
    body = SubElement(page, "body")
    if timestamp:
        SubElement(body, "p").text = timestamp
    writer.write_blocks(body, blocks)
    return b"<!DOCTYPE html>\n" + tostring(page, encoding="utf-8", method="html")


class _HtmlWriter:
    def __init__(self, pictures: Mapping[str, Picture]) -> None:
        self._pictures = pictures

    def write_blocks(self, parent: Element, blocks: Sequence[Block]) -> None:
        for block in blocks:
            if isinstance(block, Paragraph):
                self._write_inline(SubElement(parent, "p", {"dir": "auto"}), block.content)
            elif isinstance(block, Heading):
                self._write_inline(SubElement(parent, f"h{block.level}", {"dir": "auto"}), block.content)
            elif isinstance(block, CodeBlock):
                SubElement(SubElement(parent, "pre"), "code").text = block.text
            elif isinstance(block, Quote):
                self.write_blocks(SubElement(parent, "blockquote"), block.blocks)
            elif isinstance(block, ItemList):
                self._write_list(parent, block)
            elif isinstance(block, Table):
                self._write_table(parent, block)
            else:
                SubElement(parent, "hr")

    def _write_list(self, parent: Element, block: ItemList) -> None:
        if block.start is None:
            element = SubElement(parent, "ul")
        else:
            element = SubElement(parent, "ol", {"start": str(block.start)})
        for item in block.items:
            entry = SubElement(element, "li", {"dir": "auto"})
            first = item.blocks[0] if item.blocks else None
            if block.is_tight and isinstance(first, Paragraph):
                self._write_inline(entry, first.content)
                self.write_blocks(entry, item.blocks[1:])
            else:
                self.write_blocks(entry, item.blocks)

    def _write_table(self, parent: Element, table: Table) -> None:
        element = SubElement(parent, "table")
        head = SubElement(SubElement(element, "thead"), "tr")
        body = SubElement(element, "tbody")
        for number, row in enumerate((table.head, *table.rows)):
            line = SubElement(body, "tr") if number else head
            for alignment, cell in zip(table.alignments, row, strict=True):
                style = {"style": f"text-align:{alignment}"} if alignment else {}
                self._write_inline(SubElement(line, "td" if number else "th", {"dir": "auto", **style}), cell)

    def _write_inline(self, parent: Element, content: Sequence[Inline]) -> None:
        for part in content:
            if isinstance(part, Text):
                _append_text(parent, part.text)
            elif isinstance(part, Code):
                SubElement(parent, "code").text = part.text
            elif isinstance(part, Styled):
                self._write_inline(SubElement(parent, _TAGS[part.style]), part.content)
            elif isinstance(part, Link):
                self._write_inline(SubElement(parent, "a", {"href": part.address}), part.content)
            elif isinstance(part, Image):
                self._write_image(parent, part)
            elif isinstance(part, LineBreak):
                SubElement(parent, "br")
            else:
                _write_math(parent, part)

    def _write_image(self, parent: Element, image: Image) -> None:
        if image.address in self._pictures:
            SubElement(parent, "img", {"src": self._pictures[image.address].data_address, "alt": image.description})
        else:
            SubElement(parent, "em").text = f"[{image.description or 'image'}]"


def _append_text(parent: Element, text: str) -> None:
    if len(parent):
        parent[-1].tail = (parent[-1].tail or "") + text
    else:
        parent.text = (parent.text or "") + text


def _write_math(parent: Element, math: Math) -> None:
    if math.formula is None:
        SubElement(parent, "code").text = math.latex
    else:
        parent.append(mathml_element(math.formula, is_block=math.is_block))
