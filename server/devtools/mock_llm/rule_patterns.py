"""Regular expressions that cannot run for long."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

__all__ = ["Pattern", "compile_pattern"]

MAX_PATTERN_CHARS = 1000
MAX_SEARCHED_CHARS = 200_000
"""Of a longer text only the beginning is looked at."""
LIMIT_S = 0.25


class Pattern(Struct, frozen=True):
    """A regular expression with limits of text and time."""

    text: str
    compiled: Any

    def found_in(self, text: str) -> bool:
        """Tell whether it matches somewhere.

        Raises:
            TimeoutError: if that takes too long.
        """
        return self.compiled.search(text[:MAX_SEARCHED_CHARS], timeout=LIMIT_S) is not None


def compile_pattern(text: str) -> Pattern:
    """Read a regular expression.

    Raises:
        ValueError: if it is none, or too long.
    """
    import regex

    if len(text) > MAX_PATTERN_CHARS:
        raise ValueError(f"the regular expression is longer than {MAX_PATTERN_CHARS:,} characters")
    try:
        return Pattern(text, regex.compile(text))
    except regex.error as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from None
    except RecursionError:
        raise ValueError("the regular expression is nested too deeply") from None
