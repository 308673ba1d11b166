"""Large values that already are plain JSON: recognise and copy them without a Python call for each entry."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import chain
from types import NoneType
from typing import Any, NamedTuple

import msgspec

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
