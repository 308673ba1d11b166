"""Which files of a folder are documents, and what stands in them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path, PurePath
from typing import NamedTuple

from ragflow_lg.adapters.knowledge.document_metadata import SIDECAR
from ragflow_lg.adapters.knowledge.file_text import MAX_FILE_BYTES, SUFFIXES
from ragflow_lg.base.errors import ServiceError

__all__ = ["FileContent", "SourceFile", "is_gone", "other_files", "read_source", "source_files", "source_name"]

MAX_SIDECAR_BYTES = 256 * 1024
"""Largest file beside a document: whoever filters holds the metadata of all documents."""

_SHOWN_CHARS = 300
_READER = b"1"
"""Changes where files are read anew although they are the same."""


class SourceFile(NamedTuple):
    """A file. ``name`` is what the document is called: its path below the folder that was given."""

    path: Path
    name: str


class FileContent(NamedTuple):
    """The bytes of a file and of the file beside it; ``hash`` tells whether either has changed."""

    content: bytes
    sidecar: bytes | None
    hash: str


def source_files(path: Path) -> Iterator[SourceFile]:
    """Give a file itself, or all files of a folder that can be read, sorted; hidden ones and links are left out.

    A folder inside that cannot be listed is given like a file: whoever reads it is told why.

    Raises:
        ServiceError: if there is no such file or folder, or it cannot be listed.
    """
    try:
        listed = _entries(path) if stat.S_ISDIR(path.stat().st_mode) else None
    except (FileNotFoundError, NotADirectoryError):
        raise ServiceError(f"There is no file or folder {str(path)[:_SHOWN_CHARS]!r}.") from None
    except OSError as error:
        raise ServiceError(f"{str(path)[:_SHOWN_CHARS]!r} cannot be opened: {error.strerror}.") from None
    if listed is None:
        yield SourceFile(path, _text(path.name))
        return
    for file, is_read in _walk(path, listed):
        if is_read:
            yield file


def other_files(path: Path) -> Iterator[str]:
    """Name the files of a folder that are of no kind that is read; hidden ones and links are not counted."""
    if path.is_dir():
        for file, is_read in _walk(path, None):
            if not is_read:
                yield file.name


def _walk(path: Path, listed: tuple[list[str], list[str]] | None) -> Iterator[tuple[SourceFile, bool]]:
    """Go through a folder, whose entries may be known: each file, and whether it is of a kind that is read."""
    waiting = [(path, "")]
    while waiting:  # no recursion: folders may be nested as deep as they like
        folder, below = waiting.pop()
        try:
            folders, files = listed or _entries(folder)
        except OSError:
            yield SourceFile(folder, _text(below)), True
            continue
        listed = None
        waiting += [(folder / name, f"{below}{name}/") for name in reversed(folders)]
        for name in files:
            if not name.startswith("~$") and not name.lower().endswith(SIDECAR):
                yield SourceFile(folder / name, _text(below + name)), PurePath(name).suffix.lower() in SUFFIXES


def read_source(file: SourceFile) -> FileContent:
    """Read a file and the one beside it.

    Raises:
        ServiceError: if it cannot be read, or is too large.
    """
    content = _read(file.path, MAX_FILE_BYTES)
    beside = file.path.with_name(file.path.name + SIDECAR)
    sidecar = _read(beside, MAX_SIDECAR_BYTES) if _is_plain(beside) else None
    digest = blake2b(_READER, digest_size=16)
    for part in (file.path.suffix.lower().encode("utf-8", "replace"), content, sidecar or b""):
        digest.update(len(part).to_bytes(8) + part)
    return FileContent(content, sidecar, digest.hexdigest())


def source_name(path: Path) -> str:
    """Give the whole path of a file or folder as text."""
    return _text(str(path.resolve()))


def is_gone(source: str) -> bool:
    """Whether there certainly is no such file any more, or a link in its place. One out of reach is not gone."""
    try:
        return stat.S_ISLNK(os.lstat(source).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False


def _entries(folder: Path) -> tuple[list[str], list[str]]:
    """Give the names of the folders and of the files in a folder, sorted; without hidden ones and links."""
    with os.scandir(folder) as found:
        seen = [entry for entry in found if not entry.name.startswith(".") and not entry.is_symlink()]
        folders = {entry.name for entry in seen if entry.is_dir(follow_symlinks=False)}
    return sorted(folders), sorted(entry.name for entry in seen if entry.name not in folders)


def _is_plain(path: Path) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:  # its name may be too long to exist
        return False


def _text(name: str) -> str:
    """Write a name as text, also where its bytes are none."""
    return os.fsencode(name).decode("utf-8", "replace")


def _read(path: Path, limit: int) -> bytes:
    try:
        # A pipe would keep us waiting for somebody who writes into it.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ServiceError("it is no ordinary file")
            content = file.read(limit + 1)
    except OSError as error:
        raise ServiceError(f"it cannot be opened: {error.strerror}") from None
    if len(content) > limit:
        raise ServiceError(f"{path.name[:_SHOWN_CHARS]!r} is larger than {limit:,} bytes; split it")
    return content
