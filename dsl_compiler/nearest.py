"""Suggestions for names that do not exist."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["Nearest"]

MAX_CHARS = 64
MAX_NAMES = 200
MAX_LOOKUPS = 20
"""How many wrong names of one kind are looked at: each is held against all names, letter by letter."""


class Nearest:
    """Names that exist, to be held against wrong ones. What is long, or many, is not looked at."""

    def __init__(self, names: Iterable[str], *, likeness: float = 0.6) -> None:
        """``likeness`` from 0 to 1 is what a name needs to be offered."""
        self._likeness = likeness
        self._names = [name for name in dict.fromkeys(names) if len(name) <= MAX_CHARS][:MAX_NAMES]
        self._found: dict[str, str] = {}

    def hint(self, name: str, otherwise: str) -> str:
        """Ask for the one or two names that look most like this one, or say something else."""
        if name not in self._found and len(name) <= MAX_CHARS and len(self._found) < MAX_LOOKUPS:
            self._found[name] = " or ".join(get_close_matches(name, self._names, n=2, cutoff=self._likeness))
        near = self._found.get(name)
        return f"Did you mean {near}?" if near else otherwise
