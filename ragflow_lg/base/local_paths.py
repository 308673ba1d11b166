"""Files on this machine: writing one as a whole, suggestions for names, and ids.

An id is the digest of the content and the path. It alone gives no access: anyone who makes one up must know the content
of the file.
"""

from __future__ import annotations

import hashlib
import os
import re
from difflib import get_close_matches
from itertools import islice
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


def replace_file(path: Path, content: bytes, *, is_private: bool = False) -> None:
    """Write a file as a whole, so that an interruption leaves the old one. Only its owner may read a private one.

    Raises:
        OSError: if it cannot be written.
    """
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        new.unlink(missing_ok=True)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if is_private else 0o666)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.replace(new, path)
    finally:
        new.unlink(missing_ok=True)


MAX_FILES = 1000
"""Maximum number of files in a folder that are compared."""


def suggest_file(path: Path) -> str:
    """Return a question that suggests a file with a similar name in the same folder, preceded by a space, or ``""``.

    A similar folder is suggested if the folder itself does not exist.
    """
    missing = next((each for each in (path, *path.parents) if each.name and each.parent.is_dir()), None)
    if missing is None or missing.exists():
        return ""
    try:
        names = [other.name for other in islice(missing.parent.iterdir(), MAX_FILES)]
    except OSError:
        return ""
    by_lower_case = {name.lower(): name for name in names}
    near = get_close_matches(missing.name.lower(), by_lower_case, n=1, cutoff=0.8)
    if not near:
        return ""
    folder = missing.with_name(by_lower_case[near[0]])
    file = folder / path.relative_to(missing)
    return f" Did you mean {str(file if file.exists() else folder)!r}?"
