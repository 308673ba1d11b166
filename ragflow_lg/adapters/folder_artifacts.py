"""Files that runs create, kept in a folder: for the command line and for programs, which have no store of files."""

from __future__ import annotations

import asyncio
import re
from itertools import count
from pathlib import Path

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.local_paths import local_file_id
from ragflow_lg.services.artifacts import Artifact, NoArtifacts, StoredArtifact

_UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069:*?\"<>|]")
_MAX_NAME_CHARS = 200


class FolderArtifacts(NoArtifacts):
    """The `ragflow_lg.services.artifacts.Artifacts` that writes files to a folder. No file is replaced."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.expanduser()
        self.stored: dict[str, None] = {}
        """The addresses of the files that this object has written, oldest first."""

    async def store(self, artifact: Artifact, *, has_text: bool = True) -> StoredArtifact:
        """Write a file. Its address is its path."""
        try:
            path = await asyncio.to_thread(_write, self._folder, file_name(artifact.name), artifact.content)
        except OSError as error:
            raise ServiceError(
                f"The file {artifact.name!r} cannot be written to {self._folder}: {error.strerror}."
            ) from error
        self.stored[path.as_posix()] = None
        text = (await super().store(artifact, has_text=has_text)).text
        return StoredArtifact(path.as_posix(), text, local_file_id(path, artifact.content))

    async def find(self, address: str) -> bytes | None:
        """Return a file that this object has written, or None."""
        if address not in self.stored:
            return None
        try:
            return await asyncio.to_thread(Path(address).read_bytes)
        except OSError as error:
            raise ServiceError(f"The file {address!r} cannot be read: {error.strerror}.") from error


def file_name(name: str) -> str:
    r"""Return the last part of a path, without characters that systems do not allow in names.

    >>> file_name("../../etc/passwd"), file_name(".."), file_name("a\nb: c.pdf"), file_name(".bashrc")
    ('passwd', 'file', 'ab c.pdf', 'bashrc')
    """
    last = name.replace("\\", "/").rpartition("/")[2]
    result = _UNFIT.sub("", last).encode("utf-8", "ignore").decode().strip(" .")
    stem, dot, ending = result.rpartition(".")
    if len(result) > _MAX_NAME_CHARS:
        tail = dot + ending if stem and len(ending) < 16 else ""
        result = result[: _MAX_NAME_CHARS - len(tail)] + tail
    return result or "file"


def _write(folder: Path, name: str, content: bytes) -> Path:
    """Write a file under its name, or with a number if there is such a file."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in count(1):
        path = folder / name if number == 1 else folder / f"{Path(name).stem}-{number}{Path(name).suffix}"
        try:
            with path.open("xb") as file:
                file.write(content)
        except FileExistsError:
            continue
        return path
    raise AssertionError
