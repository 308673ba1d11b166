"""References and ids that fit where the user types."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ragflow_lg.dsl.value_types import Schema
from ragflow_lg.dsl_compiler.readable_values import ReadableValue
from ragflow_lg.integrations.language_server.canvas_model import (
    CanvasModel,
    describe_type,
    find_parameter,
    nested_entries,
)
from ragflow_lg.integrations.language_server.canvas_text import (
    MAX_CHARS,
    TARGET_KEYS,
    JsonString,
    Place,
    path_in_params,
    read_string,
)

_TOKEN = re.compile(r'"(?:[^"\\\r\n]|\\[^\r\n])*+(?P<end>"?)|[{}\[\],:]|[^\s{}\[\],:"]+')
MAX_DEPTH = 100


class JsonCursor(NamedTuple):
    """A place in a JSON text."""

    path: tuple[str, ...]
    """The keys and indexes of the value at the cursor."""
    typed: JsonString | None
    """The text before the cursor in the string around it; None if the cursor is not in a string."""
    is_key: bool = False
    """Whether that string is a key."""


class _Level:
    """An open object or list."""

    def __init__(self, is_object: bool) -> None:
        self.is_object = is_object
        self.name = "" if is_object else "0"
        self.expects_key = is_object

    def next_entry(self) -> None:
        """Go on after a comma."""
        self.expects_key = self.is_object
        self.name = "" if self.is_object else str(int(self.name) + 1)


def find_cursor(text: str, offset: int) -> JsonCursor | None:
    """Return the place of the cursor, or None if the text before it is nested too deeply."""
    stack: list[_Level] = []
    for match in _TOKEN.finditer(text, 0, offset):
        token = match[0]
        if token in ("{", "["):
            stack.append(_Level(token == "{"))
            if len(stack) > MAX_DEPTH:
                return None
        elif token in ("}", "]"):
            if stack:
                stack.pop()
        elif token == "," and stack:
            stack[-1].next_entry()
        elif token == ":" and stack:
            stack[-1].expects_key = False
        elif token[0] == '"':
            is_key = bool(stack) and stack[-1].expects_key
            string = read_string(text, match.start() + 1, match.end("end") - len(match["end"]))
            if not match["end"] and match.end() == offset:
                path = tuple(level.name for level in (stack[:-1] if is_key else stack))
                return JsonCursor(path, string, is_key)
            if is_key:
                stack[-1].name = string.text
    return JsonCursor(tuple(level.name for level in stack), None)


MAX_ITEMS = 1_000

_OPEN_REFERENCE = re.compile(r"\{\s*([\w:@.\-]*)\Z")
_WORD = re.compile(r"[\w:@.\-]*\Z")
_REST = re.compile(r"[\w:@.\-]*")
_CLOSING = re.compile(r"\s*\}")


class CompletionEntry(NamedTuple):
    """Something to insert."""

    label: str
    new_text: str
    """Replaces `place`."""
    place: Place
    detail: str = ""
    """Its type, in words."""
    title: str = ""
    """The title of the node."""
    is_component: bool = False


def complete(text: str, model: CanvasModel, base: tuple[str, ...], offset: int) -> list[CompletionEntry]:
    """Return what fits at a cursor: values that the node can read there, or components to which an edge may lead.

    Only the text before the cursor is read; the ``model`` is that of the last valid text, and ``base`` the path to the
    canvas in it.
    """
    cursor = find_cursor(text, offset) if len(text) <= MAX_CHARS else None
    if cursor is None or cursor.typed is None or cursor.is_key or cursor.path[: len(base)] != base:
        return []
    path = cursor.path[len(base) :]
    if len(path) < 3 or path[0] != "components":
        return []
    key = next((name for name in reversed(path) if not name.isdigit()), "")
    if key == "parent_id" or (key in TARGET_KEYS and key != "cpn_id"):
        entries = _complete_ids(text, model, path[1], cursor, offset)
    elif path_in_params(path[2:]) is not None:
        entries = _complete_references(text, model, path, cursor, offset)
    else:
        entries = iter(())
    return [entry for entry, _ in zip(entries, range(MAX_ITEMS), strict=False)]


def _complete_ids(
    text: str, model: CanvasModel, reader: str, cursor: JsonCursor, offset: int
) -> Iterator[CompletionEntry]:
    assert cursor.typed is not None
    place = Place(cursor.typed.offsets[0], _end_of_word(text, offset))
    wants_region = cursor.path[-1] == "parent_id"
    node = model.node(reader)
    for id_, other in model.draft.nodes.items():
        is_in_scope = wants_region or node is None or other.parent == node.parent
        if id_ != reader and is_in_scope and (other.spec.region is not None or not wants_region):
            yield CompletionEntry(id_, id_, place, other.spec.name, model.title(id_), is_component=True)


def _complete_references(
    text: str, model: CanvasModel, path: tuple[str, ...], cursor: JsonCursor, offset: int
) -> Iterator[CompletionEntry]:
    assert cursor.typed is not None
    opened = _OPEN_REFERENCE.search(cursor.typed.text)
    word = opened if opened is not None else _WORD.match(cursor.typed.text)
    if word is None or (opened is None and not _takes_bare_reference(model, path)):
        return
    start = word.start(1) if opened is not None else 0
    typed = cursor.typed.text[start:]
    end = _end_of_word(text, offset)
    place = Place(cursor.typed.offsets[start], end)
    closing = "}" if opened is not None and not _CLOSING.match(text, end) else ""
    for value in _with_entries(model.readable_by(path[1]), typed):
        if opened is None and value.node is None and "." not in value.text:
            continue  # `item` and `index` are references only between braces
        title = model.title(value.node.id) if value.node is not None else ""
        yield CompletionEntry(value.text, value.text + closing, place, describe_type(value.schema), title)


def _end_of_word(text: str, offset: int) -> int:
    match = _REST.match(text, offset)
    return match.end() if match is not None else offset


def _takes_bare_reference(model: CanvasModel, path: tuple[str, ...]) -> bool:
    """Return whether a text of a parameter may be a reference as a whole. Where that is unknown, it may be one."""
    spec = model.spec(path[1])
    found = find_parameter(spec, path_in_params(path[2:]) or ()) if spec is not None else None
    return found is None or "anything" in found.type or ("reference" in found.type and "text with" not in found.type)


def _with_entries(values: Iterable[ReadableValue], typed: str) -> Iterator[ReadableValue]:
    """Yield values, and the entries of the object in which the typed text ends."""
    for value in values:
        yield value
        if typed.startswith(f"{value.text}."):
            yield from _entries(value, value.schema, typed)


def _entries(value: ReadableValue, schema: Schema, typed: str) -> Iterator[ReadableValue]:
    for name, inner in nested_entries(schema):
        entry = ReadableValue(f"{value.text}.{name}", inner, value.node)
        yield entry
        if typed.startswith(f"{entry.text}."):
            yield from _entries(entry, inner, typed)
