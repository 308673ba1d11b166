"""Where the values of a JSON text begin and end, and edits of that text that leave the rest of it as it is."""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, cast

from msgspec import Struct

from ragflow_lg.base.diagnostics import Diagnostic, Fix
from ragflow_lg.base.values import JsonValue

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)


class Span(Struct, eq=False):
    """A value in a JSON text. Offsets count characters."""

    name: str
    """Its key in an object, its index in a list, or ``""``."""
    start: int
    end: int = 0
    key_start: int = -1
    """Start of its key, if it is in an object."""
    parent: Span | None = None
    children: Sequence[Span] = ()
    """A list for an object or a list."""
    by_name: dict[str, Span] | None = None
    """The children by name, once one has been looked up. Of equal keys in an object, the last one counts."""

    @property
    def path(self) -> tuple[str, ...]:
        """The names from the outermost value to this one."""
        names: list[str] = []
        span = self
        while span.parent is not None:
            names.append(span.name)
            span = span.parent
        return tuple(reversed(names))

    @property
    def pointer(self) -> str:
        """The JSON pointer to it."""
        return "".join("/" + name.replace("~", "~0").replace("/", "~1") for name in self.path)

    @property
    def entry_start(self) -> int:
        """The start of the entry: of the key if it has one, otherwise of the value."""
        return self.start if self.key_start < 0 else self.key_start


class TextEdit(NamedTuple):
    """Replaces the characters from ``start`` up to ``end`` by a text."""

    start: int
    end: int
    text: str


class JsonSpans:
    """The values of a valid JSON text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.root: Span | None = None
        self._scan()

    def find(self, pointer: str) -> Span | None:
        """Return the value at a JSON pointer."""
        span, is_exact = self.find_nearest(pointer)
        return span if is_exact else None

    def find_nearest(self, pointer: str) -> tuple[Span | None, bool]:
        """Return the value at a JSON pointer, or the innermost one around it, and whether it is the value itself."""
        span = self.root
        if span is None:
            return None, False
        for segment in pointer.split("/")[1:]:
            inner = self.child(span, segment.replace("~1", "/").replace("~0", "~"))
            if inner is None:
                return span, False
            span = inner
        return span, True

    def child(self, span: Span, name: str) -> Span | None:
        """Return the value with a key or an index."""
        if span.by_name is None:
            span.by_name = {child.name: child for child in span.children}
        return span.by_name.get(name)

    def walk(self) -> Iterator[Span]:
        """Yield all values in the order of the text; of equal keys in an object, each one."""
        stack = [self.root] if self.root is not None else []
        while stack:
            span = stack.pop()
            yield span
            stack.extend(reversed(span.children))

    def at(self, offset: int) -> Span | None:
        """Return the innermost value that contains an offset, or whose key does."""
        span = self.root
        if span is None or not span.start <= offset <= span.end:
            return None
        while True:
            place = bisect.bisect_right(span.children, offset, key=lambda child: child.entry_start) - 1
            if place < 0 or span.children[place].end < offset:
                return span
            span = span.children[place]

    def value(self, span: Span) -> JsonValue:
        """Return the value itself."""
        return json.loads(self.text[span.start : span.end])

    def _scan(self) -> None:
        stack: list[tuple[Span, bool]] = []
        key, key_start, expects_key = "", -1, False
        for match in _TOKEN.finditer(self.text):
            token = match[0]
            if token in "}]":
                stack.pop()[0].end = match.end()
                expects_key = False
            elif token == ",":
                expects_key = stack[-1][1]
            elif token == ":":
                expects_key = False
            elif expects_key:
                key, key_start = json.loads(token), match.start()
            else:
                span = self._open(stack, key, key_start, match.start())
                if token in "{[":
                    expects_key = token == "{"
                    span.children = []
                    stack.append((span, expects_key))
                else:
                    span.end = match.end()

    def _open(self, stack: list[tuple[Span, bool]], key: str, key_start: int, start: int) -> Span:
        if not stack:
            self.root = Span("", start)
            return self.root
        parent, is_object = stack[-1]
        name = key if is_object else str(len(parent.children))
        span = Span(name, start, key_start=key_start if is_object else -1, parent=parent)
        cast("list[Span]", parent.children).append(span)
        return span


def plan_fix(spans: JsonSpans, pointer: str, fix: Fix) -> tuple[TextEdit, ...]:
    """Return the edits of a fix at a pointer; none if the text has no such value any more."""
    span = spans.find(pointer)
    if span is None:
        return ()
    if fix.action == "replace":
        return (_replace(span, fix.value),)
    return _remove(_removed(spans, span, fix))


def plan_fixes(
    spans: JsonSpans, diagnostics: Iterable[Diagnostic]
) -> tuple[tuple[TextEdit, ...], tuple[Diagnostic, ...]]:
    """Return the edits of all fixes, and the diagnostics whose fixes they are.

    A fix inside a value that another fix removes or replaces is left out.
    """
    applied: list[Diagnostic] = []
    touched: set[int] = set()
    around: set[int] = set()
    removed: dict[int, list[Span]] = {}
    edits: list[TextEdit] = []
    for diagnostic in diagnostics:
        span = spans.find(diagnostic.pointer)
        if diagnostic.fix is None or span is None:
            continue
        targets = [span] if diagnostic.fix.action == "replace" else _removed(spans, span, diagnostic.fix)
        targets = [t for t in targets if id(t) not in around and not any(id(s) in touched for s in _lineage(t))]
        if not targets:
            continue
        touched.update(map(id, targets))
        around.update(id(span) for target in targets for span in _lineage(target))
        applied.append(diagnostic)
        if diagnostic.fix.action == "replace":
            edits.append(_replace(span, diagnostic.fix.value))
        for target in targets if diagnostic.fix.action != "replace" else ():
            if target.parent is not None:
                removed.setdefault(id(target.parent), []).append(target)
    for targets in removed.values():
        edits += _remove(targets)
    return tuple(edits), tuple(applied)


def apply_fixes(text: str, diagnostics: Iterable[Diagnostic]) -> tuple[str, tuple[Diagnostic, ...]]:
    """Return the text after all fixes, and the diagnostics whose fixes were applied, as `plan_fixes` plans them."""
    edits, applied = plan_fixes(JsonSpans(text), diagnostics)
    return apply_edits(text, edits), applied


def _lineage(span: Span) -> Iterator[Span]:
    """Yield a value and the values around it."""
    each: Span | None = span
    while each is not None:
        yield each
        each = each.parent


def _removed(spans: JsonSpans, span: Span, fix: Fix) -> list[Span]:
    if fix.action == "remove":
        return [span]
    return [child for child in span.children if spans.value(child) == fix.value]


def _replace(span: Span, value: JsonValue) -> TextEdit:
    return TextEdit(span.start, span.end, json.dumps(value, ensure_ascii=False))


def apply_edits(text: str, edits: Iterable[TextEdit]) -> str:
    """Return the text after edits that do not overlap."""
    for edit in sorted(edits, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def _remove(spans: Sequence[Span]) -> tuple[TextEdit, ...]:
    """Return the edits that remove entries of one parent, each with one comma."""
    parent = spans[0].parent if spans else None
    if parent is None:
        return ()
    removed = set(map(id, spans))
    if len(removed) == len(parent.children):
        return (TextEdit(parent.start + 1, parent.end - 1, ""),)
    edits: list[TextEdit] = []
    has_kept_before = False
    for number, child in enumerate(parent.children):
        if id(child) not in removed:
            has_kept_before = True
        elif has_kept_before:
            edits.append(TextEdit(parent.children[number - 1].end, child.end, ""))
        else:
            edits.append(TextEdit(child.entry_start, parent.children[number + 1].entry_start, ""))
    return tuple(edits)
