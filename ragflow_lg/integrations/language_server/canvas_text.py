"""A canvas as text: its components, and the places that name one of them or a value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from ragflow_lg.dsl.variable_references import Reference, ReferenceScope, find_references, parse_reference
from ragflow_lg.dsl_compiler.diagnostics import Reporter
from ragflow_lg.dsl_compiler.json_spans import JsonSpans, Span
from ragflow_lg.dsl_compiler.source import read_source

MAX_CHARS = 2 * 1024 * 1024
"""Longer texts get diagnostics only. Real canvases are below 1 MB."""

BOM = "\ufeff"

TARGET_KEYS = frozenset({"cpn_id", "downstream", "end_cpn_id", "end_cpn_ids", "exception_goto", "to", "upstream"})
"""The keys whose texts may be ids of components: in components, in their params, and in the forms of the editor."""

_NODE_KEYS = frozenset({"id", "parentId", "parentNode"})
_EDGE_KEYS = frozenset({"source", "target"})


_PIECE = re.compile(r"\\u([0-9a-fA-F]{4})|\\(.)|([^\\])", re.DOTALL)
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class JsonString(NamedTuple):
    """The text of a string, and the offset of each character in the source, with the end as the last entry."""

    text: str
    offsets: Sequence[int]

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Return where a part of the text begins and ends in the source."""
        return self.offsets[start], self.offsets[end]


def read_string(source: str, start: int, end: int) -> JsonString:
    """Read the characters of a string in a source, without its quotation marks.

    The string may be cut anywhere: an incomplete escape counts as the characters that it consists of.
    """
    raw = source[start:end]
    if "\\" not in raw:
        return JsonString(raw, range(start, end + 1))
    chars: list[str] = []
    offsets: list[int] = []
    for match in _PIECE.finditer(raw):
        char = chr(int(match[1], 16)) if match[1] else _ESCAPES.get(match[2], match[2]) if match[2] else match[3]
        if "\udc00" <= char <= "\udfff" and chars and "\ud800" <= chars[-1] <= "\udbff":
            chars[-1] = (chars[-1] + char).encode("utf-16", "surrogatepass").decode("utf-16")
            continue
        chars.append(char)
        offsets.append(start + match.start())
    return JsonString("".join(chars), [*offsets, end])


class Place(NamedTuple):
    """A part of the text, as offsets."""

    start: int
    end: int

    def contains(self, offset: int) -> bool:
        """Return whether a cursor at an offset touches it."""
        return self.start <= offset <= self.end


class Mention(NamedTuple):
    """A place that names a component, or a value by a reference."""

    place: Place
    component: str = ""
    """The id of the component; ``""`` for globals and short names."""
    id_place: Place | None = None
    """The id."""
    reference: Reference | None = None
    """The reference, unless only the component is named."""
    is_key: bool = False
    """Whether it is the key of the component itself."""


class ComponentEntry(NamedTuple):
    """A component in the text."""

    id: str
    span: Span
    key: Place
    """Its id, without quotation marks."""
    name: str
    """``component_name``, or ``""``."""
    parent: str
    """The id of the region around it, or ``""``."""


class CanvasText:
    """A text that may be a canvas, and may be invalid. Offsets count the characters of the text as typed."""

    def __init__(self, text: str) -> None:
        # A space instead of the mark keeps all offsets.
        self.text = " " + text[1:] if text.startswith(BOM) else text

    @cached_property
    def spans(self) -> JsonSpans | None:
        """The values, or None if the text is not valid JSON or too long."""
        if len(self.text) > MAX_CHARS:
            return None
        reporter = Reporter()
        read_source(self.text, reporter)
        return None if reporter.has_errors else JsonSpans(self.text)

    @cached_property
    def document(self) -> Span | None:
        """The object with the components: the outermost one, or ``dsl`` in a template."""
        root = self.spans.root if self.spans is not None else None
        if root is None or self.child(root, "components") is not None:
            return root
        return self.child(root, "dsl") or root

    @property
    def base(self) -> tuple[str, ...]:
        """The path to `document`."""
        return () if self.document is None else self.document.path

    @cached_property
    def components(self) -> Mapping[str, ComponentEntry]:
        """The components in the order of the text."""
        entries: dict[str, ComponentEntry] = {}
        components = self.child(self.document, "components")
        for span in components.children if components is not None else ():
            if span.key_start >= 0 and self._is(span, "{"):
                name = self.child(self.child(span, "obj") or span, "component_name") or self.child(span, "name")
                parent = self.string(self.child(span, "parent_id"))
                entries[span.name] = ComponentEntry(span.name, span, self.key_place(span), self.string(name), parent)
        return entries

    @cached_property
    def titles(self) -> Mapping[str, str]:
        """The titles of the nodes in the graph of the editor, by id."""
        nodes = self.child(self.child(self.document, "graph"), "nodes")
        titles: dict[str, str] = {}
        for node in nodes.children if nodes is not None else ():
            titles[self.string(self.child(node, "id"))] = self.string(self.child(self.child(node, "data"), "name"))
        return titles

    @cached_property
    def mentions(self) -> Sequence[Mention]:
        """All places that name a component or a value, in the order of the text."""
        return sorted(self._mentions(), key=lambda mention: mention.place)

    def mention_at(self, offset: int) -> Mention | None:
        """Return the place at a cursor."""
        return next((mention for mention in self.mentions if mention.place.contains(offset)), None)

    def path_at(self, offset: int) -> tuple[str, ...]:
        """Return the path of the value at a cursor."""
        span = self.spans.at(offset) if self.spans is not None else None
        return () if span is None else span.path

    def component_at(self, path: Sequence[str]) -> ComponentEntry | None:
        """Return the component that a path leads into."""
        base = self.base
        inner = tuple(path[len(base) :]) if tuple(path[: len(base)]) == base else ()
        return self.components.get(inner[1]) if len(inner) > 1 and inner[0] == "components" else None

    def child(self, span: Span | None, name: str) -> Span | None:
        """Return the entry of an object or a list; None if there is none."""
        return None if span is None or self.spans is None else self.spans.child(span, name)

    def string(self, span: Span | None) -> str:
        """Return a value that is a string, or ``""``."""
        if span is None or not self._is(span, '"'):
            return ""
        return read_string(self.text, span.start + 1, span.end - 1).text.encode("utf-8", "replace").decode()

    def key_place(self, span: Span) -> Place:
        """Return the key of an entry without its quotation marks, or the first character of a value without a key."""
        if span.key_start < 0:
            return Place(span.start, min(span.start + 1, span.end))
        colon = self.text.rfind('"', span.key_start + 1, span.start)
        return Place(span.key_start + 1, colon)

    def _is(self, span: Span, first: str) -> bool:
        return self.text.startswith(first, span.start)

    def _mentions(self) -> Iterator[Mention]:
        for entry in self.components.values():
            yield Mention(entry.key, entry.id, entry.key, is_key=True)
        if self.spans is None or self.document is None:
            return
        scope = ReferenceScope(frozenset(self.components), has_aliases=True)
        depth = len(self.base)
        for span in self.spans.walk():
            if not self._is(span, '"'):
                continue
            yield from self._mentions_in(span, depth, scope)

    def _mentions_in(self, span: Span, depth: int, scope: ReferenceScope) -> Iterator[Mention]:
        string = read_string(self.text, span.start + 1, span.end - 1)
        if string.text in self.components and _names_component(span.path[depth:]):
            place = Place(*string.place(0, len(string.text)))
            yield Mention(place, string.text, place)
            return
        bare = parse_reference(string.text) if len(string.text) < 1_000 and "{" not in string.text else None
        if bare is not None and (bare.kind == "global" or bare.node in self.components):
            start = string.text.find(bare.text)
            found = [(bare, start, start + len(bare.text))]
        else:
            found = list(find_references(string.text, scope)) if "{" in string.text else []
        for reference, start, end in found:
            place = Place(*string.place(start, end))
            id_end = string.place(start, start + len(reference.node))[1]
            id_place = Place(place.start, id_end) if reference.kind == "output" else None
            yield Mention(place, reference.node, id_place, reference)


def path_in_params(path: Sequence[str]) -> tuple[str, ...] | None:
    """Return the rest of a path into a component behind its params, with ``obj`` or, as 1.0 writes it, without."""
    inner = tuple(path[1:] if path[:1] == ("obj",) else path)
    return inner[1:] if inner[:1] == ("params",) else None


def _names_component(path: Sequence[str]) -> bool:
    """Return whether a text at a path, from the document on, may be the id of a component."""
    key = next((name for name in reversed(path) if not name.isdigit()), "")
    if path[:1] == ("components",):
        return key in TARGET_KEYS or (len(path) == 3 and key == "parent_id")
    if path[:2] == ("graph", "nodes"):
        return (len(path) == 4 and key in _NODE_KEYS) or key in TARGET_KEYS
    if path[:2] == ("graph", "edges"):
        return len(path) == 4 and key in _EDGE_KEYS
    return path[:1] == ("path",)
