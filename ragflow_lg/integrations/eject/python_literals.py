"""JSON values as Python literals, and texts as comments: the only ways in which a canvas gets into generated code."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, cast

WIDTH = 88
"""The longest piece of text on one line."""

SHORT = 24
"""The longest text whose lines share one line of code."""

MAX_COMMENT_CHARS = 200

_PIECE = re.compile(rf".{{1,{WIDTH}}}(?:\s|$)|\S{{1,{WIDTH}}}", re.DOTALL)


class Code(str):
    """A piece of Python that this package has written, so that it is not quoted."""

    __slots__ = ()


def literal(value: object, depth: int = 0) -> str:
    r"""Return a value as a Python expression; `Code` inside it stays as it is.

    >>> literal({"a": [True, None, 'x"y']})
    '{"a": [True, None, \'x"y\']}'
    """
    if isinstance(value, Code):
        return str(value)
    if isinstance(value, str):
        return _text(value, depth)
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, list | tuple):
        return _sequence([literal(entry, depth + 1) for entry in cast("list[Any]", value)], "[]", depth)
    if isinstance(value, Mapping):
        entries = cast("Mapping[str, Any]", value).items()
        pairs = [f"{literal(Code(quoted(str(key))))}: {literal(entry, depth + 1)}" for key, entry in entries]
        return _sequence(pairs, "{}", depth)
    return repr(value)


def quoted(text: str) -> str:
    r"""Return a text as one Python literal, in double quotes unless it contains them.

    >>> quoted('a\n"b"'), quoted("c")
    ('\'a\\n"b"\'', '"c"')
    """
    plain = repr(text)
    return f'"{plain[1:-1]}"' if plain[0] == "'" and '"' not in text and "\\'" not in plain else plain


def _text(text: str, depth: int) -> str:
    """Return a text, with one line of code for each of its lines."""
    lines = text.splitlines(keepends=True)
    pieces = [piece for line in lines for piece in _pieces(line)]
    if len(pieces) < 2 or len(text) <= SHORT:
        return quoted(text)
    indent = "    " * (depth + 1)
    return "(\n" + "".join(f"{indent}{quoted(piece)}\n" for piece in pieces) + "    " * depth + ")"


def _pieces(line: str) -> list[str]:
    if len(line) <= WIDTH:
        return [line]
    pieces = _PIECE.findall(line)
    return pieces if "".join(pieces) == line else [line[at : at + WIDTH] for at in range(0, len(line), WIDTH)]


def _sequence(entries: list[str], brackets: str, depth: int) -> str:
    line = brackets[0] + ", ".join(entries) + brackets[1]
    if "\n" not in line and len(line) + 4 * depth <= WIDTH - 10:
        return line
    indent = "    " * (depth + 1)
    return brackets[0] + "\n" + "".join(f"{indent}{entry},\n" for entry in entries) + "    " * depth + brackets[1]


def comment(text: str) -> str:
    """Return a text for a docstring or a comment: one line without double quotation marks and backslashes.

    >>> comment('Say  "hi"')
    "Say 'hi'"
    """
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line.replace('"', "'").replace("\\", "/")[:MAX_COMMENT_CHARS]
