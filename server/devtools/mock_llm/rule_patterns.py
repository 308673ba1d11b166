"""Regular expressions with limits of size and time."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

__all__ = ["Pattern", "compile_pattern"]

MAX_PATTERN_CHARS = 1000
MAX_SEARCHED_CHARS = 200_000
"""Only this many characters of a text are searched."""
LIMIT_S = 0.25


class Pattern(Struct, frozen=True):
    """A compiled regular expression whose searches are limited."""

    text: str
    compiled: Any

    def matches(self, text: str) -> bool:
        """Return whether the expression matches anywhere in a text.

        Raises:
            TimeoutError: If the search takes longer than `LIMIT_S`.
        """
        return self.compiled.search(text[:MAX_SEARCHED_CHARS], timeout=LIMIT_S) is not None


def compile_pattern(text: str) -> Pattern:
    """Compile a regular expression.

    Raises:
        ValueError: If it is invalid, too long or too deeply nested.
    """
    import regex

    if len(text) > MAX_PATTERN_CHARS:
        raise ValueError(f"the regular expression is longer than {MAX_PATTERN_CHARS:,} characters")
    try:
        return Pattern(text, regex.compile(text))
    except regex.error as error:
        raise ValueError(f"{text!r} is not a valid regular expression: {error}") from None
    except RecursionError:
        raise ValueError("the regular expression is nested too deeply") from None
