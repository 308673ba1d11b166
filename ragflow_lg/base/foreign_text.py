"""Texts of other programs, such as the errors of a server, for messages of ours."""

from __future__ import annotations

from collections.abc import Iterable

HIDDEN = "***"
MIN_SECRET_CHARS = 3
"""Shorter secrets are not replaced: they would occur in ordinary words."""


def foreign_line(text: str, secrets: Iterable[str], max_chars: int) -> str:
    """Return the beginning of a text as one line, without secrets.

    >>> foreign_line("no user   'root' with my secret", ["secret", ""], 100)
    "no user 'root' with my ***"
    """
    for secret in sorted(set(secrets), key=len, reverse=True):
        if len(secret) >= MIN_SECRET_CHARS:
            text = text.replace(secret, HIDDEN)
    return " ".join(text[: 10 * max_chars].split())[:max_chars]
