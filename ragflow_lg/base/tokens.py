"""Estimates of the number of tokens in a text. An exact count would require each model's tokenizer."""

from __future__ import annotations

import re
from functools import cache

_CHARS_PER_TOKEN = 4


@cache
def _wide() -> re.Pattern[str]:
    """Compile the pattern on first use, because such a large character class takes milliseconds to compile."""
    return re.compile(
        "[\u1100-\u11ff\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"
    )


def estimate_tokens(text: str) -> int:
    """Estimate a text's tokens: one per Chinese, Japanese or Korean character, and one per four other characters.

    >>> estimate_tokens("eight ch"), estimate_tokens("你好吗")
    (2, 3)
    """
    wide = 0 if text.isascii() else sum(1 for _ in _wide().finditer(text))
    return wide + -(-(len(text) - wide) // _CHARS_PER_TOKEN)


def shorten(text: str, tokens: int) -> str:
    """Return the longest prefix of a text that fits into ``tokens`` tokens."""
    if estimate_tokens(text) <= tokens:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if estimate_tokens(text[:middle]) <= tokens:
            low = middle
        else:
            high = middle - 1
    return text[:low]
