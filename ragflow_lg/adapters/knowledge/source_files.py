"""Which files of a folder are documents, and what stands in them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from ragflow_lg.adapters.knowledge.document_metadata import SIDECAR
from ragflow_lg.adapters.knowledge.file_text import MAX_FILE_BYTES, SUFFIXES
from ragflow_lg.errors import ServiceError

__all__ = ["FileContent", "SourceFile", "other_files", "read_source", "source_files", "source_name"]

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

    Raises:
        ServiceError: if there is no such file or folder.
    """
    if path.is_file():
        yield SourceFile(path, _text(path.name))
        return
    if not path.is_dir():
        raise ServiceError(f"There is no file or folder {str(path)!r}.")
    for file in _shown_files(path):
        if file.path.suffix.lower() in SUFFIXES:
            yield file


def other_files(path: Path) -> Iterator[str]:
    """Name the files of a folder that are of no kind that is read; hidden ones and links are not counted."""
    for file in _shown_files(path):
        if file.path.suffix.lower() not in SUFFIXES:
            yield file.name


def _shown_files(path: Path) -> Iterator[SourceFile]:
    for folder, folders, files in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            file = Path(folder) / name
            is_left_out = name.startswith((".", "~$")) or name.lower().endswith(SIDECAR) or file.is_symlink()
            if not is_left_out:
                yield SourceFile(file, _text(file.relative_to(path).as_posix()))


def read_source(file: SourceFile) -> FileContent:
    """Read a file and the one beside it.

    Raises:
        ServiceError: if it cannot be read, or is too large.
    """
    content = _read(file.path)
    beside = file.path.with_name(file.path.name + SIDECAR)
    sidecar = _read(beside) if beside.is_file() and not beside.is_symlink() else None
    digest = blake2b(_READER, digest_size=16)
    for part in (file.path.suffix.lower().encode("utf-8", "replace"), content, sidecar or b""):
        digest.update(len(part).to_bytes(8) + part)
    return FileContent(content, sidecar, digest.hexdigest())


def source_name(path: Path) -> str:
    """Give the whole path of a file or folder as text."""
    return _text(str(path.resolve()))


def _text(name: str) -> str:
    """Write a name as text, also where its bytes are none."""
    return os.fsencode(name).decode("utf-8", "replace")


def _read(path: Path) -> bytes:
    try:
        # A pipe would keep us waiting for somebody who writes into it.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ServiceError("it is no ordinary file")
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ServiceError(f"it cannot be opened: {error.strerror}") from None
    if len(content) > MAX_FILE_BYTES:
        raise ServiceError(f"it is larger than {MAX_FILE_BYTES:,} bytes; split it")
    return content
