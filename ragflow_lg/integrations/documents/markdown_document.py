"""Markdown as Pandoc reads it, and what the writers get of it: data only, since the text may come from a model.

Raw HTML is shown as text, links lead to the web, and images are those that are handed over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, TypeGuard

import orjson

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.integrations.documents.languages import LANGUAGES, is_right_to_left, language_of
from ragflow_lg.integrations.documents.pandoc import run_pandoc

Element: TypeAlias = Any
"""A part of Pandoc's document: ``{"t": its type, "c": its content}``, or a list of such parts."""

MAX_DEPTH = 25
"""Maximum depth of lists, quotations and styles."""

_FORMAT = "commonmark+pipe_tables+strikeout+task_lists+tex_math_dollars+east_asian_line_breaks"
_FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_CODE_OR_FORMULA = re.compile(
    r"^ {0,3}(?P<fence>```+|~~~+).*?(?:^ {0,3}(?P=fence)|\Z)"  # code is left as it is
    r"|(?<!`)(?P<ticks>`+)(?!`).{1,2000}?(?<!`)(?P=ticks)(?!`)"
    r"|(?<!\\)\\\((?P<inline>(?:(?!(?<!\\)\\\().){1,2000}?)\\\)"  # formulas are not nested, or it takes long
    r"|(?<!\\)\\\[(?P<block>(?:(?!(?<!\\)\\\[).){1,2000}?)\\\]"  # ``\\[2pt]`` is a distance
    r"|(?<!\$)\\begin\{(?P<name>(?:align|equation|gather|multline)\*?)\}(?P<aligned>.{1,2000}?)\\end\{(?P=name)\}",
    re.DOTALL | re.MULTILINE,
)
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_ADDRESS = re.compile(r"(?:https?://|mailto:)\S", re.IGNORECASE)
_CODE_LANGUAGE = re.compile(r"[\w+#.-]{1,40}")
_PIECE = re.compile(r".{1,20}")
_LONG_WORD = re.compile(r"[!-~]{60,}")
_TYPST_MARK = re.compile(r"([0-9]*)(\.|[-+/]\Z|=+\Z)")
_NO_ATTRIBUTES: list[Any] = ["", [], []]
_WITH_DIRECTION = frozenset({"Para", "Header", "BulletList", "OrderedList", "Table"})


def _is_element(part: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(part, dict)


def _is_list(part: Any) -> TypeGuard[list[Any]]:
    return isinstance(part, list)


def clean_text(text: str) -> str:
    r"""Return a text without the characters that some target cannot contain.

    >>> clean_text("a\x00\r\nb\ud800")
    'a\nb'
    """
    return _FORBIDDEN.sub("", text.replace("\r\n", "\n").replace("\r", "\n").replace("\x0c", "\n"))


def read_markdown(text: str) -> list[Element]:
    """Return the blocks of a text.

    Raises:
        ServiceError: if it is nested too deeply.
    """
    source = _CODE_OR_FORMULA.sub(_with_dollars, clean_text(text))
    try:
        blocks = orjson.loads(run_pandoc(source.encode(), _FORMAT, "json"))["blocks"]
    except orjson.JSONDecodeError:  # deeper than the parser goes
        raise ServiceError(_TOO_DEEP) from None
    _check_depth(blocks, 0)
    return blocks


_TOO_DEEP = f"The text nests lists, quotations or styles more than {MAX_DEPTH} levels deep."


def _check_depth(part: Element, depth: int) -> None:
    if depth > MAX_DEPTH + 2:  # a paragraph and a word
        raise ServiceError(_TOO_DEEP)
    if _is_list(part):
        for each in part:
            _check_depth(each, depth)
    elif _is_element(part):
        _check_depth(part.get("c"), depth + 1)


def _with_dollars(match: re.Match[str]) -> str:
    """Write a formula as Pandoc's reader knows it."""
    if (inline := match["inline"]) is not None:
        return f"${inline.strip()}$"
    if (block := match["block"]) is not None:
        return f"$${block}$$"
    if (aligned := match["aligned"]) is None:
        return match[0]
    return f"$$\\begin{{aligned}}{aligned}\\end{{aligned}}$$"


def words_of(part: Element, *, with_code: bool = True) -> str:
    """Return the words of a part. Without ``with_code``, code and formulas are left out."""
    if _is_list(part):
        return "".join(words_of(each, with_code=with_code) for each in part)
    if not _is_element(part):
        return ""
    kind, content = part["t"], part.get("c", "")
    if kind in ("Space", "SoftBreak", "LineBreak"):
        return " "
    if kind in ("Code", "CodeBlock", "Math"):
        return content[1] if with_code else ""
    if kind == "Str":
        return content
    return words_of(content[1] if kind in ("Link", "Image") else content, with_code=with_code)


def find_parts(part: Element, *kinds: str) -> Iterator[Element]:
    """Yield the contents of the parts of some types, in their order."""
    if _is_list(part):
        for each in part:
            yield from find_parts(each, *kinds)
    elif _is_element(part):
        if part["t"] in kinds:
            yield part["c"]
        yield from find_parts(part.get("c"), *kinds)


def title_of(blocks: list[Element]) -> str:
    """Return the text of the first heading, or ``""``."""
    return next((words_of(block["c"][2]) for block in blocks if block["t"] == "Header"), "")


def count_cells(blocks: list[Element]) -> int:
    """Return the number of cells of all tables."""
    tables = find_parts(blocks, "Table")
    return sum(len(columns) * (1 + sum(len(body[3]) for body in bodies)) for _, _, columns, _, bodies, _ in tables)


class DocumentWriter:
    """Writes the blocks of one text in one format of Pandoc."""

    def __init__(
        self, target: str, images: Mapping[str, str], language: str = "", *, shows_formulas: bool = True
    ) -> None:
        """Initialize. ``images`` are addresses in the text and what replaces them, ``language`` is that of the page.

        With ``shows_formulas`` false, formulas are shown as their source.
        """
        self._target = target
        self._images = images
        self._language = language
        self._shows_formulas = shows_formulas
        self._is_right_to_left = False
        self._handlers: Mapping[str, Callable[[Any], list[Element]]] = {
            "RawInline": lambda content: [_LINE_BREAK if _BREAK.fullmatch(content[1]) else _text(content[1])],
            "RawBlock": lambda content: [_paragraph(content[1].strip("\n").split("\n"))],
            "CodeBlock": self._code_block,
            "Link": self._link,
            "Image": self._image,
            "Math": self._math,
            "Str": self._word,
        }

    def write(self, blocks: list[Element], *options: str) -> bytes:
        """Return the file, or with the targets ``html5`` and ``typst`` the part of it that the text is."""
        document: dict[str, Any] = {"pandoc-api-version": [1, 23, 1], "meta": {}, "blocks": self._parts(blocks)}
        return run_pandoc(orjson.dumps(document), "json", self._target, *options)

    def _parts(self, part: Element) -> Element:
        if _is_list(part):
            return [new for each in part for new in self._part(each)]
        return part

    def _part(self, part: Element) -> list[Element]:
        if not _is_element(part):
            return [self._parts(part)]
        kind = part["t"]
        if kind in self._handlers:
            return self._handlers[kind](part["c"])
        if "c" not in part:
            return [part]
        if kind in _WITH_DIRECTION:
            return self._in_direction(part)
        return [self._block(part)]

    def _in_direction(self, block: Element) -> list[Element]:
        """Return a block, in a division with its direction if that is not the one around it."""
        words, around = words_of(block, with_code=False), self._is_right_to_left
        own = is_right_to_left(words) if any(map(str.isalpha, words)) else around
        self._is_right_to_left = own
        content = self._block(block)
        self._is_right_to_left = around
        if own == around:
            return [content]
        direction = "rtl" if own else "ltr"
        if self._target == "typst":
            return [_typst(f"#block(width: 100%)[\n#set text(dir: {direction})\n"), content, _typst("]")]
        return [{"t": "Div", "c": [["", [], [["dir", direction]]], [content]]}]

    def _block(self, block: Element) -> Element:
        kind, new = block["t"], self._parts(block["c"])
        if kind in ("Para", "Plain"):
            new = self._in_language(new)
        elif kind == "Header":
            new = [new[0], _NO_ATTRIBUTES, self._in_language(new[2])]
        return {"t": kind, "c": new}

    def _in_language(self, content: list[Element]) -> list[Element]:
        """Return inline content, in a span with its language if that is not the one of the page."""
        code = language_of(words_of(content, with_code=False))
        if code in ("", self._language):
            return content
        attributes = [["lang", code]]
        if self._target == "typst":
            attributes = [["typst:text:lang", f'"{code}"'], ["typst:text:font", f"fonts.{code}"]]
            if region := LANGUAGES[code].region:
                attributes.append(["typst:text:region", f'"{region}"'])
        return [{"t": "Span", "c": [["", [], attributes], content]}]

    def _code_block(self, content: Any) -> list[Element]:
        (_, classes, _), text = content
        languages = [name for name in classes[:1] if _CODE_LANGUAGE.fullmatch(name)]
        return [{"t": "CodeBlock", "c": [["", languages, []], text]}]

    def _link(self, content: Any) -> list[Element]:
        _, words, (address, _) = content
        words = self._parts(words)
        if not _ADDRESS.match(address):
            return words
        if self._target == "plain":
            shown = words_of(words)
            return words if address in (shown, f"mailto:{shown}") else [*words, _text(f" ({address})")]
        return [{"t": "Link", "c": [_NO_ATTRIBUTES, words, [address, ""]]}]

    def _image(self, content: Any) -> list[Element]:
        _, words, (address, _) = content
        description = words_of(words)
        if address in self._images:
            return [{"t": "Image", "c": [_NO_ATTRIBUTES, [_text(description)], [self._images[address], ""]]}]
        return [{"t": "Emph", "c": [_text(f"[{description or 'image'}]")]}]

    def _math(self, content: Any) -> list[Element]:
        kind, latex = content
        if self._shows_formulas and self._target != "plain":
            return [{"t": "Math", "c": [kind, latex]}]
        return [{"t": "Code", "c": [_NO_ATTRIBUTES, latex.strip()]}]

    def _word(self, word: str) -> list[Element]:
        """Return a word, for Typst in pieces: Pandoc's time grows with their square, and only words can be broken.

        Pandoc leaves some marks to Typst: a dot after ``#strong[…]`` would begin the name of a method, and a cell with
        ``- 5`` would show a list.
        """
        if self._target != "typst":
            return [_text(word)]
        escaped: list[Element] = []
        if match := _TYPST_MARK.match(word):
            escaped = [_text(match[1]), {"t": "RawInline", "c": ["typst", f"\\{match[2]}"]}]
            word = word[match.end() :]
        pieces = _PIECE.findall(_LONG_WORD.sub(lambda match: "\u200b".join(_PIECE.findall(match[0])), word))
        return [*escaped, *map(_text, pieces)]


_LINE_BREAK = {"t": "LineBreak"}


def _text(text: str) -> Element:
    return {"t": "Str", "c": text}


def _typst(source: str) -> Element:
    return {"t": "RawBlock", "c": ["typst", source]}


def _paragraph(lines: list[str]) -> Element:
    parts = [part for line in lines for part in (_LINE_BREAK, _text(line))]
    return {"t": "Para", "c": parts[1:]}
