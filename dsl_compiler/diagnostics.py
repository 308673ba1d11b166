"""Collects diagnostics while a canvas is compiled."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import NamedTuple

from ragflow_lg.base.diagnostics import ADVICE, CODES, Diagnostic, Fix, Severity

MAX_CHARS = 64
MAX_NAMES = 200
MAX_LOOKUPS = 20
"""Maximum number of misspelt names that get a suggestion: each is compared with all names, letter by letter."""


class Nearest:
    """Existing names to suggest instead of misspelt ones. Long names and names beyond the limits are ignored."""

    def __init__(self, names: Iterable[str], *, likeness: float = 0.6) -> None:
        """Collect the names. A name is suggested only if its similarity is at least ``likeness`` (0 to 1)."""
        self._likeness = likeness
        self._names = [name for name in dict.fromkeys(names) if len(name) <= MAX_CHARS][:MAX_NAMES]
        self._suggestions: dict[str, str] = {}

    def hint(self, name: str, otherwise: str) -> str:
        """Return a hint with the one or two most similar names, or ``otherwise`` if no names are similar."""
        if name not in self._suggestions and len(name) <= MAX_CHARS and len(self._suggestions) < MAX_LOOKUPS:
            matches = get_close_matches(name, self._names, n=2, cutoff=self._likeness)
            self._suggestions[name] = " or ".join(matches)
        near = self._suggestions.get(name)
        return f"Did you mean {near}?" if near else otherwise


MAX_SEGMENT_CHARS = 1_000


class Place(NamedTuple):
    """What a diagnostic is about: a value in the document, and the component that contains it, if any."""

    pointer: str
    """A JSON pointer into the document as written."""
    node: str = ""
    """Id of the component."""
    title: str = ""
    """The component's title."""


class Reporter:
    """Collects the diagnostics from all passes. Duplicates are stored only once."""

    def __init__(self) -> None:
        self._diagnostics: dict[Diagnostic, None] = {}
        self._nearest: dict[str, Nearest] = {}

    def nearest(self, kind: str, names: Iterable[str]) -> Nearest:
        """Return the suggestions for one kind of misspelt name.

        They are shared by all diagnostics in a compilation, so that the limit on look-ups applies to the whole canvas.
        """
        if kind not in self._nearest:
            self._nearest[kind] = Nearest(names, likeness=0.8)
        return self._nearest[kind]

    def report(
        self,
        code: str,
        severity: Severity,
        place: Place | str,
        message: str,
        hint: str = "",
        *,
        line: int = 0,
        column: int = 0,
        fix: Fix | None = None,
    ) -> None:
        """Add a diagnostic.

        Args:
            code: A key of `ragflow_lg.base.diagnostics.CODES`.
            severity: A canvas with errors is rejected.
            place: The place, or the pointer of one outside components. The line and column are determined later.
            message: What is wrong.
            hint: What to do. Defaults to the usual advice for the code.
            line: The line, for a problem without a pointer.
            column: The column, for a problem without a pointer.
            fix: What removes the problem without changing what a run does.
        """
        assert code in CODES, code
        pointer, node, title = Place(place) if isinstance(place, str) else place
        diagnostic = Diagnostic(code, severity, pointer, message, hint or ADVICE[code], node, title, line, column, fix)
        self._diagnostics[diagnostic] = None

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All diagnostics in the order in which they were reported, without lines and columns."""
        return tuple(self._diagnostics)

    @property
    def has_errors(self) -> bool:
        """Whether any diagnostic is an error."""
        return any(d.severity == "error" for d in self._diagnostics)


def extend_pointer(base: str, path: Iterable[str | int]) -> str:
    """Extend a JSON pointer by path segments, escaped as in RFC 6901.

    The pointer stops before any segment of more than 1,000 characters and then refers to the enclosing value.

    >>> extend_pointer("/components", ["a/b", 0])
    '/components/a~1b/0'
    """
    for segment in map(str, path):
        if len(segment) > MAX_SEGMENT_CHARS:
            break
        base += "/" + segment.replace("~", "~0").replace("/", "~1")
    return base
