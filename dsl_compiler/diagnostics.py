"""Collection of diagnostics while a canvas is compiled."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Protocol

from ragflow_lg.base.diagnostics import ADVICE, CODES, Diagnostic, Severity

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


MAX_SEGMENT_CHARS = 1_000


class DiagnosticSubject(Protocol):
    """The component that a diagnostic is about."""

    @property
    def id(self) -> str:
        """Id of the component."""
        ...

    @property
    def title(self) -> str:
        """Title of the component, or ``""``."""
        ...


class Reporter:
    """Collector of the diagnostics of all passes. Equal diagnostics are stored once."""

    def __init__(self) -> None:
        self._diagnostics: dict[Diagnostic, None] = {}
        self._nearest: dict[str, Nearest] = {}

    def nearest(self, kind: str, names: Iterable[str]) -> Nearest:
        """Return the suggestions for misspelt names of one kind.

        All diagnostics of a compilation share them, so that the limit on look-ups applies to the whole canvas.
        """
        if kind not in self._nearest:
            self._nearest[kind] = Nearest(names, likeness=0.8)
        return self._nearest[kind]

    def report(
        self,
        code: str,
        severity: Severity,
        pointer: str,
        message: str,
        *,
        hint: str = "",
        component: DiagnosticSubject | None = None,
        line: int = 0,
        column: int = 0,
    ) -> None:
        """Add a diagnostic.

        Args:
            code: A key of `ragflow_lg.base.diagnostics.CODES`.
            severity: Errors refuse the canvas.
            pointer: A JSON pointer into the document as written. Its line and column are determined later.
            message: What is wrong.
            hint: What to do; by default the usual advice for the code.
            component: The component that it is about, if any.
            line: Line of a problem without a pointer.
            column: Column of a problem without a pointer.
        """
        assert code in CODES, code
        node, title = (component.id, component.title) if component else ("", "")
        diagnostic = Diagnostic(code, severity, pointer, message, hint or ADVICE[code], node, title, line, column)
        self._diagnostics[diagnostic] = None

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All diagnostics in the order of their report, without lines and columns."""
        return tuple(self._diagnostics)

    @property
    def has_errors(self) -> bool:
        """Whether any diagnostic is an error."""
        return any(d.severity == "error" for d in self._diagnostics)


def extend_pointer(base: str, path: Iterable[str | int]) -> str:
    """Extend a JSON pointer by path segments, escaped as in RFC 6901.

    The pointer stops before a segment of more than 1,000 characters and then names the value around it.

    >>> extend_pointer("/components", ["a/b", 0])
    '/components/a~1b/0'
    """
    short = itertools.takewhile(lambda segment: len(str(segment)) <= MAX_SEGMENT_CHARS, path)
    return base + "".join("/" + str(segment).replace("~", "~0").replace("/", "~1") for segment in short)
