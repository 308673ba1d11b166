"""Ids of files on this machine: the digest of the content, and the path.

An id alone gives no access: anyone who makes one up must know the content of the file.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

_ID = re.compile(r"([0-9a-f]{64}):(.+)", re.DOTALL)


def local_file_id(path: Path, content: bytes) -> str:
    """Return the id of a file with this content."""
    return f"{hashlib.sha256(content).hexdigest()}:{path.absolute().as_posix()}"


def local_path(file_id: str) -> Path | None:
    """Return the path in an id, or None for an id of another kind.

    >>> local_path("0" * 64 + ":/tmp/a.csv"), local_path("5f1c")
    (PosixPath('/tmp/a.csv'), None)
    """
    match = _ID.fullmatch(file_id)
    return Path(match[2]) if match else None
