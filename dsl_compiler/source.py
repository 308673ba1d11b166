"""Reads a canvas file: converts text to a JSON value, and JSON pointers to lines and columns.

No positions are recorded while reading. If there are diagnostics, a scan of the text locates their pointers.
"""

from __future__ import annotations

import bisect
import heapq
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, NoReturn, cast

from ragflow_lg.base.lenient_values import is_deeper
from ragflow_lg.dsl_compiler.diagnostics import Reporter
from ragflow_lg.dsl_compiler.json_spans import JsonSpans, Span

MAX_BYTES = 16 * 1024 * 1024
"""How much of a file is read, in bytes. Real canvases are below 1 MB."""

MAX_DEPTH = 100
"""Limit on how deeply values are nested. Real canvases stay below 20."""

MAX_REPEATED_KEYS = 10
"""Limit on how many repeated keys are reported."""

_PYTHON_WORDS = re.compile(r"\b(True|False|None)\b")
_LINE_END = re.compile(r"\r\n?|\n")
_SURROGATE = re.compile("[\ud800-\udfff]")


class Position(NamedTuple):
    """A line and a column, both counted from 1."""

    line: int
    column: int


def read_source(
    source: str | bytes | Mapping[str, Any], reporter: Reporter, max_chars: int = MAX_BYTES
) -> tuple[Any, str]:
    """Return the JSON value and the text it was read from, which is ``""`` if the source already is a JSON value.

    If the source cannot be read, report the reason and return None as the value.
    """
    if isinstance(source, Mapping):
        return (source, "") if _is_bounded(source, reporter) else (None, "")
    text = _decode(source, reporter)
    if text is None:
        return None, ""
    if len(text) > max_chars:
        message = f"The file has {len(text):,} characters; the limit canvas_bytes is {max_chars:,}."
        hint = "Canvases are much smaller. Check whether the file contains run data."
        reporter.report("document-too-large", "error", "", message, hint)
        return None, text
    value = _parse(text, reporter)
    if value is None or not _is_bounded(value, reporter):
        return None, text
    return (_without_surrogates(value) if "\\ud" in text.lower() else value), text


def locate(text: str, pointers: Iterable[str]) -> dict[str, Position]:
    """Return the positions of JSON pointers in a text.

    A pointer that does not exist gets the position of its nearest ancestor. A pointer into a string that contains JSON
    (``"dsl": "{…}"``) gets the position of that string.
    """
    wanted = set(pointers)
    spans = JsonSpans(text) if any(wanted) else None
    breaks = _breaks(text)
    nearest = {pointer: spans and spans.find_nearest(pointer)[0] for pointer in wanted}
    return {pointer: _position(breaks, span.start if span else 0) for pointer, span in nearest.items()}


def split_lines(text: str) -> list[str]:
    """Split a text into lines in the way positions count them: only at JSON's line endings."""
    return _LINE_END.split(text)


def _breaks(text: str) -> list[int]:
    """Return the offsets of the line endings, preceded by the offset for an imaginary line before the first."""
    return [-1, *(match.end() - 1 for match in _LINE_END.finditer(text))]


def _position(breaks: list[int], start: int) -> Position:
    line = bisect.bisect_left(breaks, start)
    return Position(line, start - breaks[line - 1])


def _decode(source: str | bytes, reporter: Reporter) -> str | None:
    if isinstance(source, str):
        return source.removeprefix("\ufeff")
    encoding = "utf-16" if source[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return source.decode(encoding)
    except UnicodeDecodeError as error:
        before = source[: error.start].decode(encoding, "replace")
        position = _position(_breaks(before), len(before))
        message = f"The file is not UTF-8: byte {source[error.start]:#04x} is invalid here."
        _report_invalid(reporter, message, "Save it as UTF-8.", position.line, position.column)
        return None


def _parse(text: str, reporter: Reporter) -> Any:
    if not text.strip():
        return _report_invalid(reporter, "The file is empty.", "Export the canvas again.")

    has_repeated_keys = False

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal has_repeated_keys
        value = dict(pairs)
        has_repeated_keys = has_repeated_keys or len(value) != len(pairs)
        return value

    def refuse(word: str) -> NoReturn:
        raise ValueError(f"{word} is not a JSON number")

    try:
        value = json.loads(text, object_pairs_hook=collect, parse_constant=refuse)
    except json.JSONDecodeError as error:
        hint = "Export the canvas again or correct the text at this position."
        if _PYTHON_WORDS.search(text, max(0, error.pos - 10), error.pos + 10):
            hint = "Write true, false and null; True, False and None are Python."
        elif text[error.pos : error.pos + 1] == "'":
            hint = "Put strings in double quotes."
        position = _position(_breaks(text), error.pos)
        message = error.msg.removesuffix(" at").removesuffix(" starting")  # "Unterminated string starting at"
        return _report_invalid(reporter, f"{message}.", hint, position.line, position.column)
    except RecursionError:
        return _report_depth(reporter)
    except ValueError as error:
        return _report_invalid(reporter, f"A number cannot be read: {error}.", "Write it as a string.")
    if has_repeated_keys:
        _report_repeated_keys(text, reporter)
    return value


def _report_repeated_keys(text: str, reporter: Reporter) -> None:
    breaks = _breaks(text)
    for span in heapq.nsmallest(MAX_REPEATED_KEYS, _repeated_keys(text), key=lambda span: span.key_start):
        position = _position(breaks, span.key_start)
        message = f"An object has the key {span.name!r} more than once."
        hint = "Only its last value is used; remove the others."
        reporter.report("json-duplicate-key", "warning", "", message, hint, line=position.line, column=position.column)


def _repeated_keys(text: str) -> Iterator[Span]:
    """Yield the entries of a valid JSON text whose object has an entry with their key before."""
    for span in JsonSpans(text).walk():
        keys: set[str] = set()
        for child in span.children:
            if child.key_start >= 0 and child.name in keys:
                yield child
            keys.add(child.name)


def _is_bounded(value: Any, reporter: Reporter) -> bool:
    if is_deeper(value, MAX_DEPTH + 1):
        _report_depth(reporter)
        return False
    return True


def _report_depth(reporter: Reporter) -> None:
    message = f"The document is nested more than {MAX_DEPTH} levels deep."
    hint = "Canvases are nested much less deeply. Check whether this is the right file."
    reporter.report("document-too-large", "error", "", message, hint)


def _report_invalid(reporter: Reporter, message: str, hint: str, line: int = 0, column: int = 0) -> None:
    reporter.report("json-invalid", "error", "", message, hint, line=line, column=column)


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_without_surrogates(v) for v in cast("list[Any]", value)]
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value)
        return {_without_surrogates(k): _without_surrogates(v) for k, v in pairs.items()}
    return value
