"""Selection and reading of the files that become documents."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path, PurePath
from typing import NamedTuple

from ragflow_lg.adapters.knowledge.file_text import MAX_FILE_BYTES, SIDECAR, SUFFIXES
from ragflow_lg.base.errors import ServiceError

MAX_SIDECAR_BYTES = 256 * 1024
"""Maximum size of a metadata file; filters load the metadata of all documents."""

_MAX_PATH_CHARS = 300
_READER_VERSION = b"1"
"""Changes when unchanged files must be read again."""


class SourceFile(NamedTuple):
    """A file. ``name`` is the name of the document: the path within the added folder."""

    path: Path
    name: str


class FileContent(NamedTuple):
    """The bytes of a file and of its metadata file; ``hash`` changes with either."""

    content: bytes
    sidecar: bytes | None
    hash: str


def list_source_files(path: Path) -> Iterator[SourceFile]:
    """Yield a file, or all supported files in a folder, sorted, except hidden files and links.

    A subfolder that cannot be listed is yielded like a file, so that reading it reports the error.

    Raises:
        ServiceError: if the file or folder does not exist or cannot be opened.
    """
    try:
        entries = _entries(path) if stat.S_ISDIR(path.stat().st_mode) else None
    except (FileNotFoundError, NotADirectoryError):
        raise ServiceError(f"There is no file or folder {str(path)[:_MAX_PATH_CHARS]!r}.") from None
    except OSError as error:
        raise ServiceError(f"{str(path)[:_MAX_PATH_CHARS]!r} cannot be opened: {error.strerror}.") from None
    if entries is None:
        yield SourceFile(path, _text(path.name))
        return
    for file, is_supported in _walk(path, entries):
        if is_supported:
            yield file


def list_unsupported_files(path: Path) -> Iterator[str]:
    """Yield the names of unsupported files in a folder, except hidden files and links."""
    if path.is_dir():
        for file, is_supported in _walk(path, None):
            if not is_supported:
                yield file.name


def _walk(path: Path, entries: tuple[list[str], list[str]] | None) -> Iterator[tuple[SourceFile, bool]]:
    """Yield each file of a folder, and whether it is supported. ``entries`` are the folder's entries, if known."""
    pending = [(path, "")]
    while pending:  # not recursive, because folders may be nested deeply
        folder, below = pending.pop()
        try:
            folders, files = entries or _entries(folder)
        except OSError:
            yield SourceFile(folder, _text(below)), True
            continue
        entries = None
        pending += [(folder / name, f"{below}{name}/") for name in reversed(folders)]
        for name in files:
            if not name.startswith("~$") and not name.lower().endswith(SIDECAR):
                yield SourceFile(folder / name, _text(below + name)), PurePath(name).suffix.lower() in SUFFIXES


def read_source(file: SourceFile) -> FileContent:
    """Read a file and its metadata file.

    Raises:
        ServiceError: if a file cannot be read or is too large.
    """
    content = _read(file.path, MAX_FILE_BYTES)
    metadata_path = file.path.with_name(file.path.name + SIDECAR)
    sidecar = _read(metadata_path, MAX_SIDECAR_BYTES) if _is_regular(metadata_path) else None
    digest = blake2b(_READER_VERSION, digest_size=16)
    for part in (file.path.suffix.lower().encode("utf-8", "replace"), content, sidecar or b""):
        digest.update(len(part).to_bytes(8) + part)
    return FileContent(content, sidecar, digest.hexdigest())


def resolve_source_name(path: Path) -> str:
    """Return the absolute path of a file or folder as a string."""
    return _text(str(path.resolve()))


def is_deleted(source: str) -> bool:
    """Return whether a file definitely no longer exists or is a link. An inaccessible file counts as existing."""
    try:
        return stat.S_ISLNK(os.lstat(source).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False


def _entries(folder: Path) -> tuple[list[str], list[str]]:
    """Return the sorted names of the folders and files in a folder, except hidden ones and links."""
    with os.scandir(folder) as iterator:
        entries = [entry for entry in iterator if not entry.name.startswith(".") and not entry.is_symlink()]
        folders = {entry.name for entry in entries if entry.is_dir(follow_symlinks=False)}
    return sorted(folders), sorted(entry.name for entry in entries if entry.name not in folders)


def _is_regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:  # the name may be too long
        return False


def _text(name: str) -> str:
    """Decode a file name; invalid bytes are replaced."""
    return os.fsencode(name).decode("utf-8", "replace")


def _read(path: Path, limit: int) -> bytes:
    try:
        # Without O_NONBLOCK, opening a pipe would wait for a writer.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ServiceError("it is not a regular file")
            content = file.read(limit + 1)
    except OSError as error:
        raise ServiceError(f"it cannot be opened: {error.strerror}") from None
    if len(content) > limit:
        raise ServiceError(f"{path.name[:_MAX_PATH_CHARS]!r} is larger than {limit:,} bytes; split it")
    return content
