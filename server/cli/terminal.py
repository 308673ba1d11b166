"""Printing text from canvases, models and users on a terminal, and writing it into files."""

from __future__ import annotations

import io
import os
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import typer

from ragflow_lg.base import local_paths

if TYPE_CHECKING:
    from ragflow_lg.base.values import JsonValue


Style: TypeAlias = Literal["bold", "dim", "red", "yellow", "green", "cyan"]

_SGR: dict[Style, int] = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "cyan": 36}
"""Parameters of the terminal's control sequence "Select Graphic Rendition"."""


def count_of(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: ``1 chunk``, ``2,000 chunks``."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def printable(text: str) -> str:
    """Replace terminal control characters with spaces; keep line breaks and tabs."""
    return "".join(c if c.isprintable() or c in "\n\t" else " " for c in text)


def one_line(value: JsonValue, limit: int = 120) -> str:
    """Return a value on one line of at most ``limit`` characters."""
    from ragflow_lg.base.values import to_text  # the help of a command needs none of it

    text = " ".join(printable(to_text(value)[: limit * 4]).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def has_colours() -> bool:
    """Return whether standard output is a terminal that shows colours, and the user has not set NO_COLOR."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    # Older consoles of Windows print control sequences as text; Windows Terminal sets this variable.
    return sys.stdout.isatty() and (os.name != "nt" or "WT_SESSION" in os.environ)


def paint(text: str, *styles: Style) -> str:
    """Return a text with the terminal's control sequences for its styles, if `has_colours`.

    Terminal libraries do more, but importing one takes longer than checking a canvas.
    """
    if not styles or not text or not has_colours():
        return text
    return f"\x1b[{';'.join(str(_SGR[style]) for style in styles)}m{text}\x1b[0m"


def print_line(text: str) -> None:
    """Print one line on standard output without buffering; line breaks in ``text`` become spaces."""
    sys.stdout.write(printable(text).replace("\n", " ") + "\n")
    sys.stdout.flush()


DEMO = "Demo: the demo model answers, what the settings lack gets sample results, and no e-mail or web request is sent."
"""The sign of a demo."""


def print_note(text: str) -> None:
    """Print a message, which may have several lines, on standard error."""
    sys.stderr.write(printable(f"{text}\n"))


def use_utf8() -> None:
    """Make the standard streams encode all text, regardless of the locale."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")


def format_time(time: datetime) -> str:
    """Return a time in UTC, in the format that all commands use."""
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def format_command(*words: str) -> str:
    """Return a ``ragflow-lg`` command line that can be pasted into a shell."""
    return shlex.join(["ragflow-lg", *words])


def write_output(content: bytes, file: Path | None) -> None:
    """Write a document to a file, or to standard output if there is none."""
    if file is None:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    try:
        file.write_bytes(content)
    except OSError as error:
        raise typer.BadParameter(f"{str(file)!r} cannot be written: {error.strerror}.") from None


def replace_file(file: Path, content: bytes) -> None:
    """Replace a file as a whole, so that an interruption leaves the old one."""
    try:
        local_paths.replace_file(file, content)
    except OSError as error:
        raise typer.BadParameter(f"{str(file)!r} cannot be written: {error.strerror}.") from None
