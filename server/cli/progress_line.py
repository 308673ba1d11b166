"""Progress on standard error: one line that changes on a terminal, and a line now and then elsewhere."""

from __future__ import annotations

import sys
import time

INTERVAL_S = 2.0
"""Time between two lines where they stay."""


class ProgressLine:
    """Shows the last line of some progress. Call it with each line, and `close` at the end."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._shown_at = -INTERVAL_S
        self._is_open = False

    def __call__(self, line: str) -> None:
        """Show a line."""
        text = "".join(c if c.isprintable() else " " for c in line)[:110]
        if self._is_terminal:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
            self._is_open = True
        elif time.monotonic() - self._shown_at >= INTERVAL_S:
            self._shown_at = time.monotonic()
            sys.stderr.write(f"{text}\n")

    def close(self) -> None:
        """Remove the line from a terminal."""
        if self._is_open:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._is_open = False
