"""Hands the first API key of a server over to the operator."""

from __future__ import annotations

import os
import sys
from pathlib import Path

FILE = Path("first-api-key")
"""The file in the working folder that contains the key if the server was not started from a terminal."""


def hand_over(key: str, file: Path) -> str:
    """Return the line that tells the first API key. Only a terminal shows it; elsewhere, output is kept in a log.

    Without a terminal, the key is stored in a file that only its owner can read.
    """
    if sys.stdout.isatty():
        return f"API key (shown only once): {key}"
    try:
        temporary = file.with_name(f".{file.name}.{os.getpid()}")
        with os.fdopen(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as stream:
            stream.write(f"{key}\n")
        os.replace(temporary, file)
    except OSError as error:
        return (
            f"API key: {str(file)!r} cannot be written ({error.strerror}). Create one with: ragflow-lg keys create NAME"
        )
    return f"API key: in the file {file.absolute()}"
