"""Leaves out of a question what asks and what joins, so that the words remain that are searched for."""

from __future__ import annotations

import re

__all__ = ["is_mostly_chinese", "without_question_words"]

_CHINESE = """
怎么办 什么样的 哪家 一下 那家 请问 啥样 咋样了 什么时候 何时 何地 何人 是否 是不是 多少 哪里 怎么 哪儿 怎么样 如何
哪些 是啥 啥是 啊 吗 呢 吧 咋 什么 有没有 呀 谁 哪位 哪个
"""
_QUESTION = "what who how which where why"
_FUNCTION = """
's 're is are were was do does did don't doesn't didn't has have be there you me your my mine just please may i should
would wouldn't will won't done go for with so the a an by i'm it's he's she's they they're you're as on in at up out
down of to or and if
"""


def _any(words: str) -> str:
    return "|".join(re.escape(word) for word in sorted(words.split(), key=len, reverse=True))


_PATTERNS = (
    (re.compile(f"是*(?:{_any(_CHINESE)})是*"), ""),
    (re.compile(f"(?:^| )(?:{_any(_QUESTION)})(?:'re|'s)? ", re.IGNORECASE), " "),
    # A word uses up the blanks around it, so of two neighbours the second stays; the index was made for such questions.
    (re.compile(f"(?:^| )(?:{_any(_FUNCTION)}) ", re.IGNORECASE), " "),
)
_MIN_SHARE = 0.7
_SHORT_WORDS = 3


def without_question_words(text: str) -> str:
    """Leave out question and function words; a text of nothing else stays as it is.

    >>> without_question_words("how does hybrid search work")
    ' hybrid search work'
    """
    found = text
    for pattern, replacement in _PATTERNS:
        found = pattern.sub(replacement, found)
    return found if found.strip() else text


def is_mostly_chinese(text: str) -> bool:
    """Say whether a text has at most three words, or hardly any purely Latin ones."""
    words = re.split(r"[ \t]+", text)
    if len(words) <= _SHORT_WORDS:
        return True
    others = sum(re.fullmatch(r"[a-zA-Z]+", word) is None for word in words)
    return others / len(words) >= _MIN_SHARE
