"""The grammar of references.

A canvas refers to values in two ways: *bare*, if a parameter consists only of a reference (``LLM:0@content``), and *in
text*, between braces (``Dear {begin@name}, …``). Both accept

- ``<component id>@<output>[.<path>]``, the output of a component,
- ``sys.<name>[.<path>]`` and ``env.<name>[.<path>]``, globals,
- ``item``, ``index`` and ``result``, in text only and only inside an Iteration.

Any number of balanced braces, with spaces between and inside them, forms one reference. Extra braces on one side and
the spaces around a reference are text. Source: RAGFlow's ``agent/component/base.py``, whose pattern drops spaces and
leaves a pair of braces; see ``docs/fidelity.md``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from pydantic_core import core_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler

CACHED_CHARS = 4_096
"""Longer texts are parsed each time, since the cache would keep thousands of them."""

_OUTPUT = r"[\w:\-]+@[\w.\-]+"
_GLOBAL = r"(?i:sys|env)\.[\w.]+"
_ALIAS = r"(?i:item|index|result)"
# Repetitions are bounded, so that malicious text full of braces takes linear time.
_IN_TEXT = re.compile(rf"((?:\{{\s{{0,8}}){{1,8}})({_OUTPUT}|{_GLOBAL}|{_ALIAS})((?:\s{{0,8}}\}}){{1,8}})")
_BARE = re.compile(rf"(?:{_OUTPUT}|{_GLOBAL})")
_CLASSIC_ID = re.compile(r"[A-Za-z0-9_:]+")


@dataclass(frozen=True, slots=True)
class Reference:
    """A parsed reference.

    ``kind`` determines which fields are used: ``output`` has ``node``, ``key`` and ``path``; ``global`` has ``key``
    (the whole dotted name, prefix in lower case); ``alias`` has ``key``.
    """

    kind: Literal["output", "global", "alias"]
    text: str
    """The reference without braces, as shown in events and messages."""
    key: str
    node: str = ""
    path: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text

    @property
    def is_classic(self) -> bool:
        """Whether RAGFlow's own grammar covers the id (ASCII letters, digits, ``_`` and ``:``)."""
        return self.kind != "output" or _CLASSIC_ID.fullmatch(self.node) is not None

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            _validate_reference, serialization=core_schema.to_string_ser_schema()
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "string", "description": "A reference: component@output, sys.name or env.name."}


class ReferenceScope(NamedTuple):
    """The references that a text may contain. Passed to pydantic in the validation context as ``"scope"``.

    Text that only looks like a reference remains text, such as an alias outside an Iteration, or an id that is not
    covered by RAGFlow's grammar and that no component has.
    """

    nodes: frozenset[str]
    has_aliases: bool = False
    is_old: bool = False
    """Whether RAGFlow's own grammar applies: one pair of braces without spaces inside, and no hyphens in ids."""

    def admits(self, reference: Reference) -> bool:
        """Return whether this is a reference in this scope."""
        if reference.kind == "alias":
            return self.has_aliases
        return reference.is_classic or (reference.node in self.nodes and not self.is_old)


@dataclass(frozen=True, slots=True)
class Template:
    """Text with references: literal pieces and references, in order."""

    source: str
    segments: tuple[str | Reference, ...]
    references: tuple[Reference, ...] = field(init=False, repr=False, compare=False)
    """All references, in order, including repetitions."""
    literal_text: str = field(init=False, repr=False, compare=False)
    """The text without its references."""

    def __post_init__(self) -> None:
        """Prepare what every execution of a node reads."""
        object.__setattr__(self, "references", tuple([s for s in self.segments if isinstance(s, Reference)]))
        object.__setattr__(self, "literal_text", "".join([s for s in self.segments if isinstance(s, str)]))

    @property
    def sole_reference(self) -> Reference | None:
        """The reference if the text is a single reference, ignoring surrounding spaces; otherwise None."""
        references = self.references
        is_rest_blank = all(isinstance(s, Reference) or not s.strip() for s in self.segments)
        return references[0] if len(references) == 1 and is_rest_blank else None

    def __str__(self) -> str:
        return self.source

    def __bool__(self) -> bool:
        return bool(self.source)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.with_info_plain_validator_function(
            _validate_template, serialization=core_schema.to_string_ser_schema()
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "string", "description": "Text with references in braces, for example {sys.query}."}


def parse_reference(text: str) -> Reference | None:
    """Parse a bare reference, ignoring braces and spaces around it. Return None for any other text.

    >>> parse_reference("{{ LLM:0@content.title }}").path
    ('title',)
    """
    inner = text.strip("{} \t\r\n")
    return _build_reference(inner) if _BARE.fullmatch(inner) else None


def parse_template(text: str, scope: ReferenceScope | None = None) -> Template:
    """Split a text into literal pieces and references.

    >>> [str(s) for s in parse_template("Hi {{ sys.query }}!").segments]
    ['Hi ', 'sys.query', '!']
    """
    template = _parse_short(text) if len(text) <= CACHED_CHARS else _parse(text, None)
    if scope is None or (not scope.is_old and all(map(scope.admits, template.references))):
        return template
    return _parse(text, scope)


@lru_cache(maxsize=4096)
def _parse_short(text: str) -> Template:
    """Parse without a scope: as a part of the key, the ids of a whole canvas would be compared for each text."""
    return _parse(text, None)


def _parse(text: str, scope: ReferenceScope | None) -> Template:
    return Template(text, tuple(segment for segment in _segments(text, scope) if segment != ""))


class FoundReference(NamedTuple):
    """A reference and its place in a text, without the braces."""

    reference: Reference
    start: int
    end: int


def find_references(text: str, scope: ReferenceScope | None = None) -> Iterator[FoundReference]:
    """Yield the references between braces in a text.

    >>> [found.start for found in find_references("Hi {{ sys.query }}!")]
    [6]
    """
    for match in _IN_TEXT.finditer(text):
        reference = _build_reference(match[2])
        if scope is None or scope.admits(reference):
            yield FoundReference(reference, match.start(2), match.end(2))


def parse_argument(text: str, scope: ReferenceScope | None = None) -> Template:
    """Parse a text as `parse_template` does, but accept a bare reference without braces.

    A bare output reference must name a component of the canvas, because email addresses look the same.

    >>> parse_argument("sys.query").sole_reference.text
    'sys.query'
    """
    reference = None if "{" in text or "}" in text else parse_reference(text)
    if reference is not None and (reference.kind == "global" or (scope is not None and reference.node in scope.nodes)):
        return Template(text, (reference,))
    return parse_template(text, scope)


def _segments(text: str, scope: ReferenceScope | None) -> Iterator[str | Reference]:
    last = 0
    for match in _IN_TEXT.finditer(text):
        reference = _build_reference(match[2])
        if scope is not None and not scope.admits(reference):
            continue
        opening, closing = match[1], match[3]
        pairs = min(opening.count("{"), closing.count("}"))
        if scope is not None and scope.is_old:
            if opening[-1] != "{" or closing[0] != "}":
                continue
            pairs = 1
        yield text[last : match.start()] + opening[: _nth_from_end(opening, "{", pairs)]
        yield reference
        last = match.start(3) + _nth(closing, "}", pairs) + 1
    yield text[last:]


def _nth(text: str, char: str, n: int) -> int:
    index = -1
    for _ in range(n):
        index = text.index(char, index + 1)
    return index


def _nth_from_end(text: str, char: str, n: int) -> int:
    index = len(text)
    for _ in range(n):
        index = text.rindex(char, 0, index)
    return index


def _build_reference(text: str) -> Reference:
    if "@" in text:
        node, _, rest = text.partition("@")
        key, *path = rest.split(".")
        return Reference("output", text, key, node, tuple(path))
    if "." in text:
        prefix, _, name = text.partition(".")
        # RAGFlow's pattern ignores case, but its lookup does not; all sys.* names are in lower case.
        key = f"sys.{name.lower()}" if prefix.lower() == "sys" else f"env.{name}"
        return Reference("global", key, key)
    return Reference("alias", text.lower(), text.lower())


def scope_of(info: core_schema.ValidationInfo[Any]) -> ReferenceScope | None:
    """Return the scope of a validation, or None outside a compilation."""
    context: Any = info.context
    return cast("dict[str, Any]", context).get("scope") if isinstance(context, dict) else None


def _validate_reference(value: Any) -> Reference:
    if isinstance(value, Reference):
        return value
    if isinstance(value, str) and (reference := parse_reference(value)):
        return reference
    raise ValueError(f"{value!r} is not a reference; write component@output, sys.name or env.name")


def _validate_template(value: Any, info: core_schema.ValidationInfo) -> Template:
    if isinstance(value, Template):
        return value
    if value is None:
        return Template("", ())
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("should be text")
    return parse_template(str(value), scope_of(info))
