"""Local files that are sent with a question, as ``sys.files`` of the turn."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from pathlib import Path

import typer

__all__ = ["read_attachments"]

MAX_BYTES = 10 * 1024 * 1024
"""Largest file. Its content is stored in the session and sent to the model."""

_PICTURES = {".png": "png", ".jpg": "jpeg", ".jpeg": "jpeg", ".gif": "gif", ".webp": "webp"}


def read_attachments(paths: Iterable[Path]) -> list[dict[str, str]]:
    """Read files: pictures as ``data:`` URIs, all others as text.

    Raises:
        typer.BadParameter: If a file cannot be read, is too large, or is neither a picture nor UTF-8 text.
    """
    return [{"name": path.name, "content": _read_content(path)} for path in paths]


def _read_content(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise _error(path, f"cannot be read: {reason}") from None
    if len(content) > MAX_BYTES:
        raise _error(path, f"is larger than {MAX_BYTES // 1024**2} MiB")
    if kind := _PICTURES.get(path.suffix.lower()):
        return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _error(path, f"is neither UTF-8 text nor a picture ({', '.join(sorted(_PICTURES))})") from None


def _error(path: Path, reason: str) -> typer.BadParameter:
    return typer.BadParameter(f"{str(path)!r} {reason}.", param_hint="--file")
