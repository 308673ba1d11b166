"""Reading a canvas file: text to JSON value, and JSON pointers to lines and columns.

No map of positions is kept while reading. When something has to be reported, one scan of the text finds
the places asked for.
"""

from __future__ import annotations

import bisect
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, NoReturn, cast

from ragflow_lg.dsl_compiler.diagnostics import Reporter

__all__ = ["Position", "lines_of", "locate", "read_source"]

MAX_BYTES = 16 * 1024 * 1024
"""Largest file, in bytes. Real canvases are below 1 MB."""

MAX_DEPTH = 100
"""Deepest nesting. Real canvases are below 20."""

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_PYTHON_WORDS = re.compile(r"\b(True|False|None)\b")
_LINE_END = re.compile(r"\r\n?|\n")
_SURROGATE = re.compile("[\ud800-\udfff]")


class Position(NamedTuple):
    """Line and column, both counted from 1."""

    line: int
    column: int


def read_source(source: str | bytes | Mapping[str, Any], reporter: Reporter) -> tuple[Any, str]:
    """Give the JSON value and the text it was read from (``""`` for a value that was given).

    What cannot be read is reported, and None given.
    """
    if isinstance(source, Mapping):
        return (source, "") if _is_bounded(source, reporter) else (None, "")
    text = _decode(source, reporter)
    if text is None:
        return None, ""
    if len(text) > MAX_BYTES:
        reporter.report(
            "document-too-large",
            "error",
            "",
            f"The file has {len(text):,} characters; the limit is {MAX_BYTES:,}.",
            hint="A canvas is far smaller. Was it saved with its run data?",
        )
        return None, text
    value = _parse(text, reporter)
    if value is None or not _is_bounded(value, reporter):
        return None, text
    return (_without_surrogates(value) if "\\ud" in text.lower() else value), text


def locate(text: str, pointers: Iterable[str]) -> dict[str, Position]:
    """Find where JSON pointers stand in a text; one that does not exist is found at its nearest ancestor.

    Text inside a JSON text (``"dsl": "{…}"``) is found at the text that holds it.
    """
    root = _Wanted(0)
    places = {pointer: root.below(pointer) for pointer in set(pointers)}
    if root.children:
        _walk(text, root)
    breaks = _breaks(text)
    return {pointer: _position(breaks, place.nearest_start) for pointer, place in places.items()}


def lines_of(text: str) -> list[str]:
    """Split a text into the lines that positions count: JSON's own line ends, and no others."""
    return _LINE_END.split(text)


class _Wanted:
    """A value whose place is asked for, or that holds such values."""

    __slots__ = ("children", "parent", "start")

    def __init__(self, start: int | None = None, parent: _Wanted | None = None) -> None:
        self.start = start
        self.parent = parent
        self.children: dict[str, _Wanted] = {}
        """By key; of a list by index."""

    def below(self, pointer: str) -> _Wanted:
        """Give the place of a pointer, made where it is new."""
        place = self
        for segment in pointer.split("/")[1:]:
            key = segment.replace("~1", "/").replace("~0", "~")
            place = place.children.setdefault(key, _Wanted(None, place))
        return place

    @property
    def nearest_start(self) -> int:
        """Where the value stands, or the nearest one around it that was found."""
        place = self
        while place.start is None and place.parent is not None:
            place = place.parent
        return place.start or 0


def _breaks(text: str) -> list[int]:
    """Give where the lines end, and where the one before the first would."""
    return [-1, *(match.end() - 1 for match in _LINE_END.finditer(text))]


def _position(breaks: list[int], start: int) -> Position:
    line = bisect.bisect_left(breaks, start)
    return Position(line, start - breaks[line - 1])


def _walk(text: str, root: _Wanted) -> None:
    """Note the start of every wanted value of a valid JSON text."""
    stack: list[list[Any]] = []  # [wanted value or None, is object, key or index, expects a key]
    for match in _TOKEN.finditer(text):
        token, start = match[0], match.start()
        if token in "}]":
            stack.pop()
        elif token == ",":
            top = stack[-1]
            top[2] = None if top[1] else top[2] + 1
            top[3] = top[1]
        elif token == ":":
            stack[-1][3] = False
        elif stack and stack[-1][3]:
            stack[-1][2] = json.loads(token)
        else:
            top = stack[-1] if stack else None
            place = root if top is None else top[0] and top[0].children.get(str(top[2]))
            if place is not None and place.start is None:
                place.start = start
            if token in "{[":
                stack.append([place, token == "{", None if token == "{" else 0, token == "{"])


def _decode(source: str | bytes, reporter: Reporter) -> str | None:
    if isinstance(source, str):
        return source.removeprefix("\ufeff")
    encoding = "utf-16" if source[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return source.decode(encoding)
    except UnicodeDecodeError as error:
        _report_invalid(reporter, f"The file is not UTF-8: byte {error.start} cannot be read.", "Save it as UTF-8.")
        return None


def _parse(text: str, reporter: Reporter) -> Any:
    if not text.strip():
        return _report_invalid(reporter, "The file is empty.", "Export the canvas again.")

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            repeated = [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]
            for key in repeated[:10]:
                reporter.report(
                    "json-duplicate-key",
                    "warning",
                    "",
                    f"An object has the key {key!r} more than once.",
                    hint="Only its last value counts; remove the others.",
                )
        return found

    def refuse(word: str) -> NoReturn:
        raise ValueError(f"{word} is not a JSON number")

    try:
        return json.loads(text, object_pairs_hook=collect, parse_constant=refuse)
    except json.JSONDecodeError as error:
        hint = "Export the canvas again, or mend the text there."
        if _PYTHON_WORDS.search(text, max(0, error.pos - 10), error.pos + 10):
            hint = "JSON writes true, false and null; True, False and None are Python."
        elif text[error.pos : error.pos + 1] == "'":
            hint = "JSON texts stand in double quotes."
        place = _position(_breaks(text), error.pos)
        return _report_invalid(reporter, f"{error.msg}.", hint, place.line, place.column)
    except RecursionError:
        return _report_depth(reporter)
    except ValueError as error:
        return _report_invalid(reporter, f"A number cannot be read: {error}.", "Write it as text.")


def _is_bounded(value: Any, reporter: Reporter) -> bool:
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [child for holder in level for child in _children(holder)]
        if not level:
            return True
    _report_depth(reporter)
    return False


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value).values()
    return cast("list[Any]", value) if isinstance(value, list) else ()


def _report_depth(reporter: Reporter) -> None:
    reporter.report(
        "document-too-large",
        "error",
        "",
        f"The document is nested deeper than {MAX_DEPTH} levels.",
        hint="A canvas is far flatter. Is this the right file?",
    )


def _report_invalid(reporter: Reporter, message: str, hint: str, line: int = 0, column: int = 0) -> None:
    reporter.report("json-invalid", "error", "", message, hint=hint, line=line, column=column)


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_without_surrogates(v) for v in cast("list[Any]", value)]
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value)
        return {_without_surrogates(k): _without_surrogates(v) for k, v in pairs.items()}
    return value
