"""JSON values: access by path, conversion to text, and normalisation to plain JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from types import NoneType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import msgspec

from ragflow_lg.base.errors import ComponentError, ForeignJsonError
from ragflow_lg.base.json_scanner import parse_foreign_json

if TYPE_CHECKING:
    JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
else:  # msgspec decodes records with these fields and does not support recursive types
    JsonValue = Any


_PLAIN = frozenset({str, int, float, bool, NoneType, list, dict})


class PlainLimits(NamedTuple):
    """What a plain value may still contain."""

    depth: int
    """How many levels of lists and maps it may have."""
    items: int
    chars: int
    text_chars: int
    """Maximum length of each text."""


class PlainCopy(NamedTuple):
    """A copy of a plain value, with the numbers of its entries and characters."""

    value: Any
    items: int
    chars: int


def copy_if_plain(value: list[Any] | dict[str, Any], limits: PlainLimits) -> PlainCopy | None:
    """Copy a list or map of plain JSON, or return None if it has to be converted or exceeds a limit.

    The value is examined level by level, so that each step is one call for all values of a level.
    """
    items = chars = 0
    level: list[Any] = [value]
    for depth in range(limits.depth + 1):
        kinds: set[type] = set(map(type, level))
        if not kinds <= _PLAIN:
            return None
        maps, lists = _of_type(dict, level, kinds), _of_type(list, level, kinds)
        items += sum(map(len, maps)) + sum(map(len, lists))
        if items > limits.items:
            return None
        keys = list(chain.from_iterable(maps))
        if keys and set(map(type, keys)) != {str}:
            return None
        texts = keys + list(_of_type(str, level, kinds))
        chars += sum(map(len, texts))
        if chars > limits.chars or not _are_plain_texts(texts, limits.text_chars):
            return None
        if not _are_plain_numbers(_of_type(int, level, kinds), _of_type(float, level, kinds)):
            return None
        if not maps and not lists:
            return PlainCopy(_copy(value, is_flat=depth <= 1), items, chars)
        level = list(chain(chain.from_iterable(map(dict[str, Any].values, maps)), chain.from_iterable(lists)))
    return None


def _copy(value: Any, *, is_flat: bool) -> Any:
    if is_flat:
        return value.copy()
    return msgspec.msgpack.decode(msgspec.msgpack.encode(value))  # MessagePack represents all plain values exactly


def _of_type(kind: type, level: Sequence[Any], kinds: set[type]) -> Sequence[Any]:
    if kind not in kinds:
        return ()
    return level if len(kinds) == 1 else [value for value in level if type(value) is kind]


def _are_plain_texts(texts: Sequence[str], max_chars: int) -> bool:
    """Return whether no text is too long or has a lone surrogate."""
    if max(map(len, texts), default=0) > max_chars:
        return False
    joined = "".join(texts)
    if joined.isascii():
        return True
    try:
        joined.encode()
    except UnicodeEncodeError:
        return False
    return True


def _are_plain_numbers(integers: Sequence[int], floats: Iterable[float]) -> bool:
    """Return whether all integers have at most 64 bits and all other numbers are finite."""
    if integers and not (min(integers) >= -(2**63) and max(integers) < 2**63):
        return False
    return all(map(math.isfinite, floats))


MAX_DEPTH = 64
"""Maximum nesting depth of a stored value."""

MAX_NAME_PARTS = 64
"""Maximum number of dotted parts in a global's name; any further parts are a path into its value."""

MAX_TEXT_CHARS = 8 * 1024 * 1024
"""Maximum length of a text in a stored value, in characters."""

MAX_CHARS = 4 * MAX_TEXT_CHARS
"""Maximum total length of all texts and keys in one node's outputs."""

MAX_PARSED_CHARS = 2 * 1024 * 1024
"""Maximum total length of the texts that one node parses as JSON to read parts of them."""

MIN_LARGE = 64
"""Lists and maps with at least this many entries are first copied as if they were plain."""

MAX_ITEMS = 100_000
"""Maximum total number of list entries and map keys in one node's outputs."""


def to_text(value: object) -> str:
    """Convert a value to text: null to ``""``, text unchanged, everything else to JSON.

    >>> to_text(None), to_text("a"), to_text(True), to_text({"ü": [1.0]})
    ('', 'a', 'true', '{"ü": [1.0]}')
    """
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False, default=str)


def join_texts(pieces: Iterable[str]) -> str:
    """Join pieces of text.

    Raises:
        ComponentError: before the result exceeds the maximum length of a stored text.
    """
    parts: list[str] = []
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > MAX_TEXT_CHARS:
            raise ComponentError(f"The text would exceed {MAX_TEXT_CHARS:,} characters.")
        parts.append(piece)
    return "".join(parts)


def parse_json(text: str) -> JsonValue:
    """Parse text as JSON, or return None, also for more than `TEXT_LIMITS` allows."""
    try:
        return parse_foreign_json(text)
    except ForeignJsonError:
        return None


def read_path(value: Any, path: Sequence[str], parse: Callable[[str], JsonValue] = parse_json) -> JsonValue:
    """Return the value at a dotted path, or None if there is no such value.

    ``parse`` parses text along the path; list indexes may be negative. Source: RAGFlow's
    ``Graph.get_variable_param_value``.
    """
    for segment in path:
        if isinstance(value, str):
            value = parse(value)
        if isinstance(value, Mapping):
            value = cast("Mapping[str, Any]", value).get(segment)
        elif isinstance(value, list):
            value = _item(cast("list[Any]", value), segment)
        else:
            return None
    return value


def _item(values: list[Any], segment: str) -> JsonValue:
    try:
        return values[int(segment)]
    except (ValueError, IndexError):
        return None


def write_path(root: JsonValue, path: Sequence[str], value: JsonValue) -> JsonValue:
    """Return a copy of ``root`` with ``value`` at ``path``; missing maps along the path are created.

    Raises:
        ComponentError: if a value along the path exists but is not a map.
    """
    if not path:
        return value
    if root is None or root == "":
        root = {}
    if not isinstance(root, Mapping):
        raise ComponentError(f"Cannot write into {path[0]!r}: the value there is not a map.")
    current = cast("Mapping[str, Any]", root)
    return {**current, path[0]: write_path(current.get(path[0]), path[1:], value)}


_EMPTY: dict[type, Any] = {kind: kind for kind in (str, bool, int, float, list, dict)}


def empty_like(value: object) -> JsonValue:
    """Return the empty value of the same type: ``""``, ``0``, ``0.0``, ``False``, ``[]``, ``{}``, or None."""
    kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType] - of any value
    make: Any = _EMPTY.get(kind)
    return make() if make else None


def empty_of_type(type_name: str) -> JsonValue:
    """Return the empty value for a DSL type name (``number``, ``boolean``, ``object``, ``array…``; else text)."""
    name = type_name.lower()
    if name.startswith("array"):
        return []
    empty: dict[str, JsonValue] = {"number": 0, "boolean": False, "object": {}}
    return empty.get(name, "")


def to_number(value: object) -> int | float | None:
    """Return a number, or the number that a text represents; None for other values. Integers remain exact."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if not isinstance(value, str):
        return value
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return None


def to_json(value: Any) -> JsonValue:
    """Convert a value to plain JSON that every checkpointer stores unchanged.

    Tuples and sets become lists, keys become text, NaN and infinity become null, bytes, other objects and integers
    longer than 64 bits become text, and surrogates are joined.

    Raises:
        ComponentError: if the value exceeds the maximum depth or size of a stored value.
    """
    kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType] - of any value
    if value is None or kind is bool or (kind is str and len(value) <= MAX_TEXT_CHARS and value.isascii()):
        return value
    if kind is str:
        return _text(value)
    if kind is dict and not value:
        return {}
    return _Normaliser().walk(value, 0)


def to_json_with_size(value: Any) -> tuple[JsonValue, int, int]:
    """Convert a value as `to_json` does. Return it with the numbers of its characters and of its entries.

    Raises:
        ComponentError: if the value exceeds the maximum depth or size of a stored value.
    """
    normaliser = _Normaliser()
    result = normaliser.walk(value, 0)
    return result, normaliser.chars, normaliser.items


def _text(value: str) -> str:
    if len(value) > MAX_TEXT_CHARS:
        raise ComponentError(f"A text of {len(value):,} characters exceeds the limit of {MAX_TEXT_CHARS:,}.")
    return join_surrogates(value)


def join_surrogates(text: str) -> str:
    r"""Join the two surrogates of a character that a model has split; a lone one becomes U+FFFD.

    Neither files nor stores can contain them; JSON, PDF and shells produce them as well.

    >>> join_surrogates("\ud83d\ude00") == "\U0001f600"
    True
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def shorten_integers(value: Any) -> Any:
    """Return a value in which integers longer than 64 bits are text, as `to_json` writes them."""
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else _big(value)
    if isinstance(value, dict):
        return {shorten_integers(k): shorten_integers(v) for k, v in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list):
        return [*map(shorten_integers, cast("list[Any]", value))]
    return tuple(map(shorten_integers, cast("tuple[Any, ...]", value))) if type(value) is tuple else value


def _big(value: int) -> str:
    try:
        return str(value)
    except ValueError:  # more digits than the interpreter can convert
        return hex(value)


MAPS = (dict, Mapping)
"""``dict`` is first because the check against an abstract class is slower."""


class _Normaliser:
    """One traversal of a value, limited to a number of items and characters."""

    __slots__ = ("chars", "items", "may_be_plain")

    def __init__(self) -> None:
        self.items = 0
        self.chars = 0
        self.may_be_plain = True
        """Whether no large part has turned out not to be plain. Trying its parts as well could cost too much."""

    def walk(self, value: Any, depth: int) -> JsonValue:
        kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType] - of any value
        if value is None or kind is bool:
            return value
        if kind is str:
            return self._text(value)
        if self.may_be_plain and (kind is list or kind is dict) and len(value) >= MIN_LARGE:
            return self._copy_large(value, depth)
        if kind is dict:  # check the most frequent types first: checks against abstract classes are slow
            self._count(len(value), depth)
            return {
                self._text(k) if type(k) is str else self._key(k): self.walk(v, depth + 1) for k, v in value.items()
            }
        if kind is list:
            self._count(len(value), depth)
            return [self.walk(v, depth + 1) for v in value]
        return self._convert(value, depth)

    def _copy_large(self, value: Any, depth: int) -> JsonValue:
        limits = PlainLimits(MAX_DEPTH - depth + 1, MAX_ITEMS - self.items, MAX_CHARS - self.chars, MAX_TEXT_CHARS)
        copy = copy_if_plain(value, limits)
        if copy is None:
            self.may_be_plain = False
            return self.walk(value, depth)
        self.items += copy.items
        self.chars += copy.chars
        return copy.value

    def _convert(self, value: Any, depth: int) -> JsonValue:
        """Convert a number, or a value of a type that plain JSON does not have."""
        if isinstance(value, str):
            return self._text(str(value))
        if isinstance(value, int):
            return int(value) if -(2**63) <= value < 2**63 else self._text(_big(value))
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else None
        if isinstance(value, MAPS):
            pairs = cast("Mapping[Any, Any]", value)
            self._count(len(pairs), depth)
            return {self._key(k): self.walk(v, depth + 1) for k, v in pairs.items()}
        if isinstance(value, list | tuple | set | frozenset):
            entries = cast("list[Any]", value)
            self._count(len(entries), depth)
            return [self.walk(v, depth + 1) for v in entries]
        if isinstance(value, bytes | bytearray):
            return self._text(bytes(value).decode("utf-8", "replace"))
        return self._text(str(value))

    def _text(self, value: str) -> str:
        self.chars += len(value)
        if self.chars > MAX_CHARS:
            raise ComponentError(f"A value has more than {MAX_CHARS:,} characters.")
        return _text(value)

    def _count(self, n: int, depth: int) -> None:
        self.items += n
        if depth > MAX_DEPTH:
            raise ComponentError(f"A value is nested deeper than {MAX_DEPTH} levels.")
        if self.items > MAX_ITEMS:
            raise ComponentError(f"A value has more than {MAX_ITEMS:,} entries.")

    def _key(self, key: Any) -> str:
        return self._text(key) if isinstance(key, str) else to_text(self.walk(key, 0))
