"""A report as source of Typst: calls of its functions in code mode, in which all text is a string literal.

Typst therefore never interprets text as markup. The source names no file: images are part of it, as drawings (SVG) that
contain them, so that no image can refer to another file either.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from ragflow_lg.adapters.reports import report_tree as tree
from ragflow_lg.adapters.reports.images import Picture
from ragflow_lg.adapters.reports.languages import LANGUAGES, is_right_to_left, language_of

_SPECIAL = re.compile(r'["\\\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]')


def literal(text: str) -> str:
    r"""Return a string literal.

    >>> print(literal('a"b\\c\n#x'))
    "a\u{22}b\u{5c}c\u{a}#x"
    """
    return '"' + _SPECIAL.sub(_escape, text) + '"'


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return "" if 0xD800 <= code <= 0xDFFF else f"\\u{{{code:x}}}"


_LINES: Mapping[tuple[str, bool], str] = {
    ("―", False): "overline",
    ("‾", False): "overline",
    ("¯", False): "overline",
    ("_", True): "underline",
    ("―", True): "underline",
    ("⏞", False): "overbrace",
    ("⏟", True): "underbrace",
}


def typst_equation(formula: tree.Formula, *, is_block: bool, is_large: bool = False) -> str:
    """Return the call that typesets a formula; with ``is_large`` as large inside a line as in a block."""
    body = _write(formula)
    if is_large and not is_block:
        body = f"math.display({body})"
    return f"math.equation(block: {'true' if is_block else 'false'}, {body})"


def _write(formula: tree.Formula) -> str:
    if isinstance(formula, tree.Atom):
        return _atom(formula)
    if isinstance(formula, tree.Row):
        return "{" + "; ".join(map(_write, formula.parts)) + "}" if formula.parts else "[]"
    if isinstance(formula, tree.Fraction):
        top, bottom = _write(formula.top), _write(formula.bottom)
        return f"math.frac({top}, {bottom})" if formula.has_line else f"math.mat(delim: none, ({top},), ({bottom},))"
    if isinstance(formula, tree.Root):
        if formula.index is None:
            return f"math.sqrt({_write(formula.body)})"
        return f"math.root({_write(formula.index)}, {_write(formula.body)})"
    if isinstance(formula, tree.Scripts):
        return _scripts(formula)
    if isinstance(formula, tree.Accent):
        return _accent(formula)
    if isinstance(formula, tree.Fence):
        opening = f"[#symbol({literal(formula.opening)})]; " if formula.opening else ""
        closing = f"; [#symbol({literal(formula.closing)})]" if formula.closing else ""
        return f"math.lr({{{opening}{_write(formula.body)}{closing}}})"
    if isinstance(formula, tree.Grid):
        return _grid(formula)
    return f"h({formula.width:.3f}em)"


def _atom(atom: tree.Atom) -> str:
    if atom.kind == "name":
        return f"math.op({literal(atom.text)})"
    if atom.kind == "symbol" and len(atom.text) == 1:
        return f"[#symbol({literal(atom.text)})]"  # content: symbols next to each other would become one text
    return f"text({literal(atom.text)})"


def _scripts(scripts: tree.Scripts) -> str:
    base = _write(scripts.base)
    if scripts.is_limits:
        base = f"math.limits({base})"
    lower = "" if scripts.lower is None else f", b: {_write(scripts.lower)}"
    upper = "" if scripts.upper is None else f", t: {_write(scripts.upper)}"
    return f"math.attach({base}{lower}{upper})"


def _accent(accent: tree.Accent) -> str:
    base = _write(accent.base)
    if (line := _LINES.get((accent.mark, accent.is_below))) is not None:
        return f"math.{line}({base})"
    if not accent.is_below and accent.mark in tree.ACCENTS:
        return f"math.accent({base}, {literal(tree.ACCENTS[accent.mark])})"
    side = "b" if accent.is_below else "t"
    return f"math.attach(math.limits({base}), {side}: symbol({literal(accent.mark)}))"


def _grid(grid: tree.Grid) -> str:
    """Return a matrix without brackets. One whose columns are aligned differently needs a general grid."""
    if len(set(grid.alignments)) == 1:
        rows = ", ".join("(" + "".join(f"{_write(cell)}, " for cell in row) + ")" for row in grid.rows)
        return f"math.mat(delim: none, align: {grid.alignments[0]}, {rows})"
    cells = ", ".join(f"math.equation({_write(cell)})" for row in grid.rows for cell in row)
    alignments = ", ".join(grid.alignments)
    gutters = "column-gutter: 0.25em, row-gutter: 0.7em"
    return f"box(baseline: 50%, grid(columns: {len(grid.alignments)}, align: ({alignments}), {gutters}, {cells}))"


MAX_IMAGE_PT = (450.0, 640.0)
"""Maximum width and height of an image, in points."""

Direction: TypeAlias = Literal["ltr", "rtl"]

_LONG_WORD = re.compile(r"[!-~]{60,}")
_WORD_PART = re.compile(r".{1,20}")
_POINTS_PER_PIXEL = 0.75
_FUNCTIONS = {"emphasis": "emph", "strong": "strong", "strike": "strike"}


class TypstWriter:
    """Writes the blocks of one report."""

    def __init__(
        self, pictures: Mapping[str, Picture], families: Sequence[str], language: str, *, has_formulas: bool = True
    ) -> None:
        """Initialize. ``families`` are the fonts in their order, ``language`` is that of the whole text.

        With ``has_formulas`` false, formulas are shown as their source.
        """
        self._pictures = pictures
        self._families = families
        self._language = language
        self._has_formulas = has_formulas

    def font_rule(self, language: str) -> str:
        """Return the rule that sets the language, and the fonts with those for it first."""
        known = LANGUAGES.get(language)
        preferred = [family for family in (known.families if known else ()) if family in self._families]
        first = self._families[:1]
        families = dict.fromkeys([*first, *preferred, *self._families])
        names = "".join(f"{literal(family)}, " for family in families)
        region = f", region: {literal(known.region)}" if known and known.region else ""
        return f"set text(font: ({names}), lang: {literal(language or 'en')}{region})"

    def blocks(self, blocks: Sequence[tree.Block], direction: Direction = "ltr") -> str:
        """Return the code block that contains the blocks. ``direction`` is that of what surrounds them."""
        return "{\n" + "\n".join(self._in_language(block, direction) for block in blocks) + "\n}"

    def _in_language(self, block: tree.Block, direction: Direction) -> str:
        """Return a block, with the rules for its language and direction unless they already apply."""
        if not isinstance(block, tree.Paragraph | tree.Heading | tree.ItemList | tree.Table):
            return self._block(block, direction)
        text = tree.block_text(block)
        rules: list[str] = []
        if (language := language_of(text)) not in ("", self._language) and not isinstance(block, tree.ItemList):
            rules.append(self.font_rule(language))
        own = _direction_of(text) or direction
        if own != direction:
            rules.append(f"set text(dir: {own})")
        source = self._block(block, own)
        return "{" + "; ".join([*rules, source]) + "}" if rules else source

    def _block(self, block: tree.Block, direction: Direction) -> str:
        if isinstance(block, tree.Paragraph):
            return self._paragraph(block)
        if isinstance(block, tree.Heading):
            return f"heading(level: {block.level}, {self.inline(block.content)})"
        if isinstance(block, tree.CodeBlock):
            language = f", lang: {literal(block.language[:40])}" if block.language else ""
            return f"raw({literal(block.text)}, block: true{language})"
        if isinstance(block, tree.Quote):
            return (
                "block(inset: (left: 1em, y: 0.2em), stroke: (left: 2pt + luma(190)), width: 100%, "
                f"{self.blocks(block.blocks, direction)})"
            )
        if isinstance(block, tree.ItemList):
            return self._list(block, direction)
        if isinstance(block, tree.Table):
            return self._table(block)
        return "line(length: 100%, stroke: 0.5pt + luma(160))"

    def _paragraph(self, paragraph: tree.Paragraph) -> str:
        """Return a paragraph. A single image or formula stands by itself."""
        only = paragraph.content[0] if len(paragraph.content) == 1 else None
        if isinstance(only, tree.Image) and only.address in self._pictures:
            return f"block({self._image(only)})"
        if isinstance(only, tree.Math) and only.is_block:
            return self._math(only, is_block=True)
        return f"par({self.inline(paragraph.content)})"

    def _list(self, block: tree.ItemList, direction: Direction) -> str:
        tight = "true" if block.is_tight else "false"
        items = ", ".join(self.blocks(item.blocks, direction) for item in block.items)
        if block.start is None:
            return f"list(tight: {tight}, {items})"
        return f"enum(tight: {tight}, start: {block.start}, {items})"

    def _table(self, table: tree.Table) -> str:
        columns = len(table.alignments)
        alignments = "".join(f"{alignment or 'auto'}, " for alignment in table.alignments)
        head = ", ".join(f"strong({self.inline(cell)})" for cell in table.head)
        cells = "".join(f", {self.inline(cell)}" for row in table.rows for cell in row)
        return (
            f"table(columns: {columns}, align: ({alignments}), stroke: 0.5pt + luma(160), inset: 5pt, "
            f"table.header({head}){cells})"
        )

    def inline(self, content: Sequence[tree.Inline]) -> str:
        """Return the code block that contains inline content."""
        return "{" + "; ".join(self._parts(content)) + "}" if content else "[]"

    def _parts(self, content: Sequence[tree.Inline]) -> Iterator[str]:
        for part in content:
            if isinstance(part, tree.Text):
                yield f"text({literal(_LONG_WORD.sub(_break_word, part.text))})"
            elif isinstance(part, tree.Code):
                yield f"raw({literal(part.text)})"
            elif isinstance(part, tree.Styled):
                yield f"{_FUNCTIONS[part.style]}({self.inline(part.content)})"
            elif isinstance(part, tree.Link):
                yield f"link({literal(part.address)}, {self.inline(part.content)})"
            elif isinstance(part, tree.Image):
                yield f"box({self._image(part)})" if part.address in self._pictures else self._description(part)
            elif isinstance(part, tree.LineBreak):
                yield "linebreak()"
            else:
                yield self._math(part)

    def _math(self, math: tree.Math, *, is_block: bool = False) -> str:
        """Return a formula. Typst drops blocks that are inside of a paragraph."""
        if math.formula is not None and self._has_formulas:
            return typst_equation(math.formula, is_block=is_block, is_large=math.is_block)
        return f"raw({literal(math.latex)}{', block: true' if is_block else ''})"

    def _description(self, image: tree.Image) -> str:
        return f"emph(text({literal(f'[{image.description}]' if image.description else '[image]')}))"

    def _image(self, image: tree.Image) -> str:
        picture = self._pictures[image.address]
        description = f", alt: {literal(image.description)}" if image.description else ""
        return f"{typst_image(picture)[:-1]}{description})"


def _direction_of(text: str) -> Direction | None:
    if is_right_to_left(text):
        return "rtl"
    return "ltr" if any(map(str.isalpha, text)) else None


def _break_word(match: re.Match[str]) -> str:
    """Allow line breaks in a word that is longer than a line."""
    return "\u200b".join(_WORD_PART.findall(match[0]))


def typst_image(picture: Picture) -> str:
    """Return the call that shows an image."""
    width, height = picture.width * _POINTS_PER_PIXEL, picture.height * _POINTS_PER_PIXEL
    scale = min(1.0, MAX_IMAGE_PT[0] / width, MAX_IMAGE_PT[1] / height)
    shown = f"width: {width * scale:.1f}pt, height: {height * scale:.1f}pt"
    if picture.type == "svg":
        source = picture.content.decode("utf-8", "replace")
        return f'image(bytes({literal(source)}), format: "svg", {shown}, fit: "contain")'
    size = f'width="{picture.width}" height="{picture.height}"'
    drawing = f'<svg xmlns="http://www.w3.org/2000/svg" {size}><image {size} href="{picture.data_address}"/></svg>'
    return f'image(bytes({literal(drawing)}), format: "svg", {shown})'
