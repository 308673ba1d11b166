"""Splitting of text into words for the embedded search, for chunks and questions in any script.

Words consist of letters, digits and ``_`` in lower case; English plurals become singular. Text in scripts that are
written without spaces (Chinese, Japanese, Korean, Thai and others) becomes pairs of neighbouring characters.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise

MAX_QUESTION_WORDS = 256
"""Maximum number of different words in a question."""

MAX_QUESTION_CHARS = 20_000
_MAX_WORD_CHARS = 64
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_ASCII_WORD = re.compile(r"[a-z0-9_]+")
_RUN = re.compile(rf"([{_UNSPACED}]+)|([^\W{_UNSPACED}]+)")
_ENGLISH_FUNCTION_WORDS = (
    "a about am an and any are as at be been by can could did do does for from had has have how i if in into is it its "
    "many me much my of on or our please shall should so such tell than that the their them there these they this "
    "those to us was we were what when where which who whom whose why will with would you your"
)
_FUNCTION_WORDS = frozenset(_ENGLISH_FUNCTION_WORDS.split())
_CHINESE_FUNCTION_WORDS = re.compile(
    "为什么|是不是|有没有|能不能|请告诉我|什么时候|请问|什么|怎么样|怎么|怎样|如何|多少|哪里|哪些|哪个|哪儿|是否|可以|"
    "我们|你们|他们|[吗呢的了吧啊和与是有在我你他她它]"
)


def split_words(text: str) -> list[str]:
    """Return the words in order.

    >>> split_words("Two Policies of user_id 7")
    ['two', 'policy', 'of', 'user_id', '7']
    >>> split_words("南京市 ＡＢ")
    ['南京', '京市', 'ab']
    """
    if text.isascii():
        return [_singular(word) for word in _ASCII_WORD.findall(text.lower())]
    words: list[str] = []
    for unspaced, word in _RUN.findall(unicodedata.normalize("NFKC", text).casefold()):
        if word:
            words.append(_singular(word))
        elif len(unspaced) == 1:
            words.append(unspaced)
        else:
            words += map("".join, pairwise(unspaced))
    return words


def contains_unspaced(text: str) -> bool:
    """Return whether a text contains a script that is written without spaces.

    >>> contains_unspaced("年假 policy"), contains_unspaced("Ёлка")
    (True, False)
    """
    return not text.isascii() and any(unspaced for unspaced, _ in _RUN.findall(unicodedata.normalize("NFKC", text)))


def extract_question_words(question: str) -> list[str]:
    """Return the different words in a question without question and function words, unless no others remain.

    >>> extract_question_words("How many days of vacation are there?"), extract_question_words("请问年假有多少天？")
    (['day', 'vacation'], ['年假', '天'])
    """
    text = question[:MAX_QUESTION_CHARS]
    words = dict.fromkeys(split_words(_CHINESE_FUNCTION_WORDS.sub(" ", text)))
    content_words = [word for word in words if word not in _FUNCTION_WORDS]
    return (content_words or list(dict.fromkeys(split_words(text))))[:MAX_QUESTION_WORDS]


def _singular(word: str) -> str:
    """Remove a plural ending using three rules that seldom change the meaning."""
    if len(word) > 3 and word[-1] == "s" and word[-2] not in "su":
        if word.endswith("ies"):
            return f"{word[:-3]}y"[:_MAX_WORD_CHARS]
        return word[:-1][:_MAX_WORD_CHARS]
    return word[:_MAX_WORD_CHARS]
