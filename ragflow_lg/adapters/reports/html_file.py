"""Reports as a page of HTML and MathML: elements that are built as a tree, so that text never becomes markup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.etree.ElementTree import Element, SubElement, tostring

from ragflow_lg.adapters.reports import report_tree as tree
from ragflow_lg.adapters.reports.images import Picture
from ragflow_lg.adapters.reports.languages import main_language

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


def write_html(blocks: Sequence[tree.Block], text: str, timestamp: str, pictures: Mapping[str, Picture]) -> bytes:
    """Return the page. ``text`` is the source of the blocks, for the language of the page."""
    page = Element("html", {"lang": main_language(text) or "en"})
    head = SubElement(page, "head")
    SubElement(head, "meta", {"charset": "utf-8"})
    SubElement(head, "meta", {"http-equiv": "Content-Security-Policy", "content": _POLICY})
    SubElement(head, "title").text = tree.title_of(blocks) or "Document"
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

    def write_blocks(self, parent: Element, blocks: Sequence[tree.Block]) -> None:
        for block in blocks:
            if isinstance(block, tree.Paragraph):
                self._write_inline(SubElement(parent, "p", {"dir": "auto"}), block.content)
            elif isinstance(block, tree.Heading):
                self._write_inline(SubElement(parent, f"h{block.level}", {"dir": "auto"}), block.content)
            elif isinstance(block, tree.CodeBlock):
                SubElement(SubElement(parent, "pre"), "code").text = block.text
            elif isinstance(block, tree.Quote):
                self.write_blocks(SubElement(parent, "blockquote"), block.blocks)
            elif isinstance(block, tree.ItemList):
                self._write_list(parent, block)
            elif isinstance(block, tree.Table):
                self._write_table(parent, block)
            else:
                SubElement(parent, "hr")

    def _write_list(self, parent: Element, block: tree.ItemList) -> None:
        if block.start is None:
            element = SubElement(parent, "ul")
        else:
            element = SubElement(parent, "ol", {"start": str(block.start)})
        for item in block.items:
            entry = SubElement(element, "li", {"dir": "auto"})
            first = item.blocks[0] if item.blocks else None
            if block.is_tight and isinstance(first, tree.Paragraph):
                self._write_inline(entry, first.content)
                self.write_blocks(entry, item.blocks[1:])
            else:
                self.write_blocks(entry, item.blocks)

    def _write_table(self, parent: Element, table: tree.Table) -> None:
        element = SubElement(parent, "table")
        head = SubElement(SubElement(element, "thead"), "tr")
        body = SubElement(element, "tbody")
        for number, row in enumerate((table.head, *table.rows)):
            line = SubElement(body, "tr") if number else head
            for alignment, cell in zip(table.alignments, row, strict=True):
                style = {"style": f"text-align:{alignment}"} if alignment else {}
                self._write_inline(SubElement(line, "td" if number else "th", {"dir": "auto", **style}), cell)

    def _write_inline(self, parent: Element, content: Sequence[tree.Inline]) -> None:
        for part in content:
            if isinstance(part, tree.Text):
                _append_text(parent, part.text)
            elif isinstance(part, tree.Code):
                SubElement(parent, "code").text = part.text
            elif isinstance(part, tree.Styled):
                self._write_inline(SubElement(parent, _TAGS[part.style]), part.content)
            elif isinstance(part, tree.Link):
                self._write_inline(SubElement(parent, "a", {"href": part.address}), part.content)
            elif isinstance(part, tree.Image):
                self._write_image(parent, part)
            elif isinstance(part, tree.LineBreak):
                SubElement(parent, "br")
            else:
                _write_math(parent, part)

    def _write_image(self, parent: Element, image: tree.Image) -> None:
        if image.address in self._pictures:
            SubElement(parent, "img", {"src": self._pictures[image.address].data_address, "alt": image.description})
        else:
            SubElement(parent, "em").text = f"[{image.description or 'image'}]"


def _append_text(parent: Element, text: str) -> None:
    if len(parent):
        parent[-1].tail = (parent[-1].tail or "") + text
    else:
        parent.text = (parent.text or "") + text


def _write_math(parent: Element, math: tree.Math) -> None:
    if math.formula is None:
        SubElement(parent, "code").text = math.latex
    else:
        parent.append(mathml_element(math.formula, is_block=math.is_block))


_TOKEN_TAGS = {"symbol": "mi", "number": "mn", "text": "mtext", "name": "mi"}


def mathml_element(formula: tree.Formula, *, is_block: bool) -> Element:
    """Return the element ``math`` with a formula."""
    root = Element("math", {"display": "block" if is_block else "inline"})
    _write(SubElement(root, "mrow"), formula)
    return root


def _write(parent: Element, formula: tree.Formula) -> None:
    if isinstance(formula, tree.Row):
        for part in formula.parts:
            _write(parent, part)
    elif isinstance(formula, tree.Scripts):
        _write_scripts(parent, formula)
    elif isinstance(formula, tree.Grid):
        _write_grid(parent, formula)
    elif isinstance(formula, tree.Fence):
        _write_fence(parent, formula)
    else:
        _write_element(parent, formula)


def _write_element(parent: Element, formula: tree.Atom | tree.Fraction | tree.Root | tree.Accent | tree.Space) -> None:
    """Write a part that is one element."""
    if isinstance(formula, tree.Atom):
        is_operator = formula.kind == "symbol" and not formula.text.isalpha()
        SubElement(parent, "mo" if is_operator else _TOKEN_TAGS[formula.kind]).text = formula.text
    elif isinstance(formula, tree.Fraction):
        attributes = {} if formula.has_line else {"linethickness": "0"}
        _write_rows(SubElement(parent, "mfrac", attributes), formula.top, formula.bottom)
    elif isinstance(formula, tree.Root):
        if formula.index is None:
            _write(SubElement(parent, "msqrt"), formula.body)
        else:
            _write_rows(SubElement(parent, "mroot"), formula.body, formula.index)
    elif isinstance(formula, tree.Accent):
        element = SubElement(parent, "munder" if formula.is_below else "mover")
        _write_rows(element, formula.base, tree.Atom("symbol", formula.mark))
    else:
        SubElement(parent, "mspace", {"width": f"{formula.width:.3f}em"})


def _write_fence(parent: Element, fence: tree.Fence) -> None:
    row = SubElement(parent, "mrow")
    if fence.opening:
        SubElement(row, "mo", {"fence": "true", "stretchy": "true"}).text = fence.opening
    _write(row, fence.body)
    if fence.closing:
        SubElement(row, "mo", {"fence": "true", "stretchy": "true"}).text = fence.closing


def _write_rows(element: Element, *parts: tree.Formula) -> None:
    for part in parts:
        _write(SubElement(element, "mrow"), part)


def _write_scripts(parent: Element, scripts: tree.Scripts) -> None:
    lower, upper = scripts.lower, scripts.upper
    names = ("munder", "mover", "munderover") if scripts.is_limits else ("msub", "msup", "msubsup")
    if lower is not None and upper is not None:
        _write_rows(SubElement(parent, names[2]), scripts.base, lower, upper)
    elif lower is not None:
        _write_rows(SubElement(parent, names[0]), scripts.base, lower)
    elif upper is not None:
        _write_rows(SubElement(parent, names[1]), scripts.base, upper)


def _write_grid(parent: Element, grid: tree.Grid) -> None:
    table = SubElement(parent, "mtable", {"columnalign": " ".join(grid.alignments)})
    for row in grid.rows:
        line = SubElement(table, "mtr")
        for cell in row:
            _write(SubElement(line, "mtd"), cell)
