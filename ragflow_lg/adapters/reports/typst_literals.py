"""Text as a string literal of Typst, the only form in which text enters its source."""

from __future__ import annotations

import re

_SPECIAL = re.compile(r'["\\\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]')


def literal(text: str) -> str:
    r"""Return a string literal.

    >>> print(literal('a"b\\c\n#x'))
    "a\u{22}b\u{5c}c\u{a}#x"
    """
    return '"' + _SPECIAL.sub(_escape, text) + '"'


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return "" if 0xD800 <= code <= 0xDFFF else f"\\u{{{code:x}}}"
