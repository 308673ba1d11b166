"""The first API key of a server that was started without a terminal."""

from pathlib import Path


def read_first_key(line: str | bytes) -> str:
    """Return the key from the file that a line of the server's output names, and remove the file."""
    text = line.decode() if isinstance(line, bytes) else line
    file = Path(text.strip().removeprefix("API key: in the file "))
    key = file.read_text("utf-8").strip()
    file.unlink()
    return key
