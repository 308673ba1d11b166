"""The garbage collector's settings for processes of the command."""

from __future__ import annotations

import atexit
import gc

_THRESHOLDS = (20_000, 20, 50)


def collect_rarely() -> None:
    """Collect garbage rarely, and not when the process ends.

    Imports create many objects but no garbage. With the interpreter's defaults, visiting these objects takes a fourth
    of a short command's processor time. In a server, a full collection pauses every stream for a tenth of a second.
    """
    gc.set_threshold(*_THRESHOLDS)
    atexit.register(gc.freeze)  # the last collection would visit everything that the process is about to drop
