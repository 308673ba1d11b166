"""Versions of channels: short texts.

LangGraph compares versions as texts, and every checkpoint repeats those of all channels. Its own have 49 characters.
"""

from __future__ import annotations

from random import getrandbits
from typing import TypeAlias

Version: TypeAlias = str | int | float

_DIGITS = 8
_MANY = "a"
"""Marks numbers with more digits. It is greater than any digit."""


def next_version(current: Version | None) -> str:
    """Return the version after the greatest one so far, which LangGraph's savers may have made.

    The random part distinguishes steps that follow the same one.

    >>> next_version("00000000000000000000000000000012.0.3745401188473625").partition(".")[0]
    '00000013'
    """
    number = int(str(current or 0).partition(".")[0].removeprefix(_MANY)) + 1
    text = f"{number:0{_DIGITS}}" if number < 10**_DIGITS else f"{_MANY}{number:0{4 * _DIGITS}}"
    return f"{text}.{getrandbits(24):06x}"
