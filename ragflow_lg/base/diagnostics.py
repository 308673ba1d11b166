"""Diagnostics about a canvas, and the table of their stable codes, which is ``diagnostics.json``.

The code of a diagnostic never changes; ``docs/diagnostics.md`` explains each code.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, NamedTuple

Severity = Literal["error", "warning", "info"]
"""An ``error`` rejects the canvas, a ``warning`` does not prevent a run, an ``info`` reports a rewrite."""

_TABLE: dict[str, dict[str, str]] = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))

CODES: dict[str, str] = {code: row["meaning"] for code, row in _TABLE.items()}
"""The meaning of every code, in one sentence."""

ADVICE: dict[str, str] = {code: row["advice"] for code, row in _TABLE.items() if "advice" in row}
"""The default hint for each code, used if a finding does not have a hint."""


class Finding(NamedTuple):
    """A component's finding about its own parameters, not yet located in the document.

    ``path`` is the path to the value within the component's params, for example ``("variables", 0, "ref")``.
    """

    code: str
    severity: Severity
    path: tuple[str | int, ...]
    message: str
    hint: str = ""


class Fix(NamedTuple):
    """A change at a diagnostic's pointer that does not change what a run does."""

    title: str
    action: Literal["remove", "remove_items", "replace"]
    """``remove`` the entry, ``remove_items`` that equal ``value`` from the list, or ``replace`` it by ``value``."""
    value: Any = None


class Diagnostic(NamedTuple):
    """A problem in a canvas, or a note about it.

    ``pointer`` is an RFC 6901 JSON pointer into the document as written; ``line`` and ``column`` count
    from 1 and are 0 if the source text is unknown. ``node`` and ``title`` name the component, if any.
    """

    code: str
    severity: Severity
    pointer: str
    message: str
    hint: str = ""
    node: str = ""
    title: str = ""
    line: int = 0
    column: int = 0
    fix: Fix | None = None
    """What ``check --fix`` does, if there is a safe fix."""

    def as_dict(self) -> dict[str, Any]:
        """Return the diagnostic as JSON, without its fix."""
        return {name: value for name, value in self._asdict().items() if name != "fix"}

    def __str__(self) -> str:
        position = f"{self.line}:{self.column}: " if self.line else ""
        subject = f" [{self.title or self.node}]" if self.title or self.node else ""
        hint = f" {self.hint}" if self.hint else ""
        return f"{position}{self.severity} {self.code}{subject}: {self.message}{hint}"
