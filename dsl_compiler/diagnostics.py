"""Collecting diagnostics while a canvas is compiled."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Protocol

from ragflow_lg.base.diagnostics import ADVICE, CODES, Diagnostic, Severity
from ragflow_lg.dsl_compiler.nearest import Nearest

__all__ = ["Named", "Reporter", "pointer_of"]

MAX_SEGMENT_CHARS = 1_000


class Named(Protocol):
    """What a diagnostic shows of the component that it is about."""

    @property
    def id(self) -> str:
        """Id of the component."""
        ...

    @property
    def title(self) -> str:
        """Title of the component, or ``""``."""
        ...


class Reporter:
    """Takes what the passes find. Each finding is kept once."""

    def __init__(self) -> None:
        self._found: dict[Diagnostic, None] = {}
        self._nearest: dict[str, Nearest] = {}

    def nearest(self, kind: str, names: Iterable[str]) -> Nearest:
        """Give suggestions for misspelt names of one kind: the same for all findings, so that looking up has an end."""
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
        component: Named | None = None,
        line: int = 0,
        column: int = 0,
    ) -> None:
        """Add a diagnostic. ``pointer`` is a JSON pointer into the document as written.

        ``hint`` says what to do; without one that is the usual advice of the code.
        ``line`` and ``column`` are for what has no pointer; of everything else they are found later.
        """
        assert code in CODES, code
        node, title = (component.id, component.title) if component else ("", "")
        self._found[Diagnostic(code, severity, pointer, message, hint or ADVICE[code], node, title, line, column)] = (
            None
        )

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """All that was found, in the order found; without line and column."""
        return tuple(self._found)

    @property
    def has_errors(self) -> bool:
        """Whether the canvas is to be refused."""
        return any(d.severity == "error" for d in self._found)


def pointer_of(base: str, path: Iterable[str | int]) -> str:
    """Extend a JSON pointer by path segments, escaped as RFC 6901 asks.

    It ends before a segment of more than 1,000 characters: what is in there is found at what is around it.

    >>> pointer_of("/components", ["a/b", 0])
    '/components/a~1b/0'
    """
    short = itertools.takewhile(lambda segment: len(str(segment)) <= MAX_SEGMENT_CHARS, path)
    return base + "".join("/" + str(segment).replace("~", "~0").replace("/", "~1") for segment in short)
