"""The secrets of a canvas, for views of its values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ragflow_lg.dsl.redacted_view import RedactedView
from ragflow_lg.dsl.redaction import MIN_WORD_CHARS, Redactor, is_secret_name

if TYPE_CHECKING:
    from ragflow_lg.component.plan import Plan


def make_redacted_view(plan: Plan, secrets: Iterable[str]) -> RedactedView:
    """Return a view without the given secrets, and without those of a canvas and its nested canvases."""
    redactor = Redactor(secrets)
    redactor.learn_all(plan.redactor)
    return RedactedView(redactor)


def find_stored_secrets(*states: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the values of secret variables in stored states. Runs and forks may have changed those of the canvas."""
    found: list[str] = []
    for state in states:
        globals_: Mapping[str, Any] = state.get("globals") or {}
        texts = [value for name, value in globals_.items() if isinstance(value, str) and is_secret_name(name)]
        found += [text for text in texts if len(text) >= MIN_WORD_CHARS or not text.isalpha()]
    return tuple(found)
