"""Conversion of Markdown to the tree of a report."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from ragflow_lg.adapters.reports import report_tree as tree
from ragflow_lg.adapters.reports.latex_formulas import read_latex

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

MAX_NESTING = 100
"""How deep the parser follows lists and quotations; what is deeper is dropped."""

MAX_DEPTH = 10
"""How deep lists and quotations are in the tree. What is deeper becomes a part of the last level."""

MAX_FORMULAS = 2_000
"""Maximum number of formulas that are translated; the others are shown as their text."""

BOXES = "☐☑"
"""What replaces ``[ ]`` and ``[x]`` at the beginning of a list item."""

_FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_ADDRESS = re.compile(r"(?:https?://|mailto:)\S", re.IGNORECASE)
_WIDE = "[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"
_WIDE_BREAK = re.compile(f"(?<={_WIDE})\n(?={_WIDE})")
_TASK = re.compile(r"\[([ xX])\][ \t]+")
_ALIGNMENTS: Mapping[str, tree.Alignment] = {
    "text-align:left": "left",
    "text-align:center": "center",
    "text-align:right": "right",
}
_STYLES = {"em": "emphasis", "strong": "strong", "s": "strike"}


def clean_text(text: str) -> str:
    r"""Return a text without the characters that some target cannot contain.

    >>> clean_text("a\x00\r\nb\ud800")
    'a\nb'
    """
    return _FORBIDDEN.sub("", text.replace("\r\n", "\n").replace("\r", "\n").replace("\x0c", "\n"))


def read_markdown(text: str) -> tuple[tree.Block, ...]:
    """Return the tree of a text. HTML in it is text, except for line breaks."""
    from markdown_it.tree import SyntaxTreeNode

    tokens = _parser().parse(clean_text(text))
    return _Reader().blocks(SyntaxTreeNode(tokens).children, 0)


def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt
    from mdit_py_plugins.amsmath import amsmath_plugin
    from mdit_py_plugins.dollarmath import dollarmath_plugin
    from mdit_py_plugins.texmath import texmath_plugin

    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": MAX_NESTING})
    parser.enable(["table", "strikethrough"])
    parser.use(texmath_plugin, delimiters="brackets")
    parser.use(dollarmath_plugin, allow_space=False, allow_digits=False, double_inline=True)
    return parser.use(amsmath_plugin)


class _Reader:
    """Converts the nodes of one text."""

    def __init__(self) -> None:
        self._formulas = 0

    def blocks(self, nodes: Sequence[SyntaxTreeNode], depth: int) -> tuple[tree.Block, ...]:
        return tuple(block for node in nodes for block in self._block(node, depth))

    def _block(self, node: SyntaxTreeNode, depth: int) -> Iterator[tree.Block]:
        kind = node.type
        if kind == "paragraph":
            yield tree.Paragraph(self._inline(node))
        elif kind == "heading":
            yield tree.Heading(int(node.tag[1:]), self._inline(node))
        elif kind in ("fence", "code_block"):
            words = (node.info if kind == "fence" else "").split()
            yield tree.CodeBlock(node.content.rstrip("\n"), words[0] if words else "")
        elif kind == "hr":
            yield tree.Rule()
        elif kind == "table":
            yield self._table(node)
        elif kind.startswith(("math_block", "amsmath")):
            yield tree.Paragraph((self._math(node.content, is_block=True),))
        elif kind in ("blockquote", "bullet_list", "ordered_list"):
            yield from self._container(node, depth)
        else:
            yield tree.Paragraph((tree.Text(node.content),))

    def _container(self, node: SyntaxTreeNode, depth: int) -> Iterator[tree.Block]:
        if depth >= MAX_DEPTH:
            inner = [
                child for item in node.children for child in (item.children if item.type == "list_item" else [item])
            ]
            yield from self.blocks(inner, depth)
        elif node.type == "blockquote":
            yield tree.Quote(self.blocks(node.children, depth + 1))
        else:
            items = tuple(tree.ListItem(self.blocks(item.children, depth + 1)) for item in node.children)
            start = int(cast("Any", node.attrs.get("start", 1))) if node.type == "ordered_list" else None
            is_tight = all(p.hidden for item in node.children for p in item.children if p.type == "paragraph")
            yield tree.ItemList(tuple(map(_with_box, items)), start, is_tight)

    def _table(self, node: SyntaxTreeNode) -> tree.Table:
        rows = [row for part in node.children for row in part.children]
        cells = [tuple(self._inline(cell) for cell in row.children) for row in rows]
        styles = (str(cell.attrs.get("style", "")) for cell in rows[0].children)
        alignments: tuple[tree.Alignment, ...] = tuple(_ALIGNMENTS.get(style, "") for style in styles)
        return tree.Table(alignments, cells[0], tuple(cells[1:]))

    def _inline(self, node: SyntaxTreeNode) -> tuple[tree.Inline, ...]:
        return _join_texts([part for line in node.children for child in line.children for part in self._part(child)])

    def _part(self, node: SyntaxTreeNode) -> Iterator[tree.Inline]:
        kind = node.type
        if kind == "text":
            for number, piece in enumerate(_BREAK.split(node.content)):
                if number:
                    yield tree.LineBreak()
                if piece:
                    yield tree.Text(piece)
        elif kind in ("softbreak", "hardbreak"):
            yield tree.Text("\n") if kind == "softbreak" else tree.LineBreak()
        elif kind == "code_inline":
            yield tree.Code(node.content)
        elif kind in _STYLES:
            yield tree.Styled(cast("Any", _STYLES[kind]), self._parts(node))
        elif kind == "link":
            address = str(node.attrs.get("href", ""))
            content = self._parts(node)
            yield from [tree.Link(address, content)] if _ADDRESS.match(address) else content
        elif kind == "image":
            yield tree.Image(str(node.attrs.get("src", "")), node.content)
        elif kind.startswith("math"):
            yield self._math(node.content, is_block=kind != "math_inline")
        elif node.content:
            yield tree.Text(node.content)

    def _parts(self, node: SyntaxTreeNode) -> tuple[tree.Inline, ...]:
        return _join_texts([part for child in node.children for part in self._part(child)])

    def _math(self, latex: str, *, is_block: bool) -> tree.Math:
        self._formulas += 1
        formula = read_latex(latex.strip()) if self._formulas <= MAX_FORMULAS else None
        return tree.Math(latex.strip(), formula, is_block)


def _join_texts(parts: Sequence[tree.Inline]) -> tuple[tree.Inline, ...]:
    """Join neighbouring texts. A line break in the source becomes a space, except between Chinese characters."""
    joined: list[tree.Inline] = []
    for part in parts:
        last = joined[-1] if joined else None
        if isinstance(part, tree.Text) and isinstance(last, tree.Text):
            joined[-1] = tree.Text(last.text + part.text)
        else:
            joined.append(part)
    return tuple(tree.Text(_unwrap(part.text)) if isinstance(part, tree.Text) else part for part in joined)


def _unwrap(text: str) -> str:
    return _WIDE_BREAK.sub("", text).replace("\n", " ") if "\n" in text else text


def _with_box(item: tree.ListItem) -> tree.ListItem:
    """Return an item with ``[ ]`` or ``[x]`` at its beginning replaced by a box."""
    first = item.blocks[0] if item.blocks else None
    if not (isinstance(first, tree.Paragraph) and first.content and isinstance(first.content[0], tree.Text)):
        return item
    match = _TASK.match(first.content[0].text)
    if match is None:
        return item
    box = tree.Text(f"{BOXES[match[1] != ' ']} " + first.content[0].text[match.end() :])
    return tree.ListItem((tree.Paragraph((box, *first.content[1:])), *item.blocks[1:]))
