"""The file that a command writes."""

from __future__ import annotations

import sys
from pathlib import Path

import typer


def write_output(content: bytes, file: Path | None) -> None:
    """Write a document to a file, or to standard output if there is none.

    Raises:
        typer.BadParameter: If the file cannot be written.
    """
    if file is None:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    try:
        file.write_bytes(content)
    except OSError as error:
        raise typer.BadParameter(f"{str(file)!r} cannot be written: {error.strerror}.") from None


def replace_file(file: Path, content: bytes) -> None:
    """Replace a file as a whole, so that an interruption leaves the old one.

    Raises:
        typer.BadParameter: if it cannot be written.
    """
    new = file.with_name(f".{file.name}.new")
    try:
        new.write_bytes(content)
        new.replace(file)
    except OSError as error:
        raise typer.BadParameter(f"{str(file)!r} cannot be written: {error.strerror}.") from None
    finally:
        new.unlink(missing_ok=True)
