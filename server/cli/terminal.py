"""Text from canvases and models on somebody's terminal."""

from __future__ import annotations

import io
import shlex
import sys
from datetime import UTC, datetime

__all__ = ["counted", "printable", "shown_command", "shown_time", "write_as_utf8"]


def counted(number: int, what: str) -> str:
    """Say how many there are of something: ``1 chunk``, ``2,000 chunks``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def printable(text: str) -> str:
    """Leave out what would steer the terminal; line breaks and tabs stay."""
    return "".join(c if c.isprintable() or c in "\n\t" else " " for c in text)


def write_as_utf8() -> None:
    """Let the standard streams take every text, whatever the locale."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")


def shown_time(when: datetime) -> str:
    """Show a time, the same way everywhere."""
    return when.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def shown_command(*words: str) -> str:
    """Show a command of ours as it can be typed."""
    return shlex.join(["ragflow-lg", *words])
