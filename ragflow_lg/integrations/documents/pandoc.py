"""Pandoc, which reads Markdown and writes Word, HTML, text and Typst.

It is a program that is executed, not a library, and its sandbox lets it read nothing but its standard input. A worker
process starts it, so that it inherits the limits of memory and processor time.
"""

from __future__ import annotations

import subprocess

from ragflow_lg.base.errors import ServiceError, WorkLimitError

SECONDS = 50
"""Maximum duration of a conversion."""

HEAP_MB = 700


def run_pandoc(content: bytes, source: str, target: str, *options: str) -> bytes:
    """Return what Pandoc makes of a document. ``source`` and ``target`` are names of its formats.

    Raises:
        ServiceError: if it refuses the document.
        WorkLimitError: if it takes too long, or too much memory.
    """
    import pypandoc

    command = [pypandoc.get_pandoc_path(), "+RTS", f"-M{HEAP_MB}m", "-RTS", "--sandbox", "--data-dir=/nonexistent"]
    command += [f"--from={source}", f"--to={target}", "--wrap=none", "--output=-", *options]
    try:
        done = subprocess.run(command, input=content, capture_output=True, timeout=SECONDS, env={}, check=False)
    except subprocess.TimeoutExpired:
        raise WorkLimitError(f"Pandoc did not finish within {SECONDS} s and was stopped.") from None
    if done.returncode == _HEAP_EXHAUSTED or done.returncode < 0:
        raise WorkLimitError("Pandoc needs more memory or time for this document than it gets, and was stopped.")
    if done.returncode:
        reason = done.stderr.decode("utf-8", "replace")[:300]
        raise ServiceError(f"Pandoc cannot convert the document: {reason}")
    return done.stdout


_HEAP_EXHAUSTED = 251
