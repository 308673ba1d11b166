"""Suggestions for misspelt names."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["Nearest"]

MAX_CHARS = 64
MAX_NAMES = 200
MAX_LOOKUPS = 20
"""Most misspelt names that get a suggestion: each is compared with all names, letter by letter."""


class Nearest:
    """Existing names to suggest instead of misspelt ones. Long names, and names beyond the limits, are ignored."""

    def __init__(self, names: Iterable[str], *, likeness: float = 0.6) -> None:
        """Collect the names. A suggestion needs a similarity of at least ``likeness``, from 0 to 1."""
        self._likeness = likeness
        self._names = [name for name in dict.fromkeys(names) if len(name) <= MAX_CHARS][:MAX_NAMES]
        self._suggestions: dict[str, str] = {}

    def hint(self, name: str, otherwise: str) -> str:
        """Return a hint with the one or two most similar names, or ``otherwise`` if no name is similar."""
        if name not in self._suggestions and len(name) <= MAX_CHARS and len(self._suggestions) < MAX_LOOKUPS:
            matches = get_close_matches(name, self._names, n=2, cutoff=self._likeness)
            self._suggestions[name] = " or ".join(matches)
        near = self._suggestions.get(name)
        return f"Did you mean {near}?" if near else otherwise
