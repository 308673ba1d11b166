"""Files on this machine: what the command attaches to a turn, and what runs have written to a folder."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from mimetypes import guess_extension
from pathlib import Path
from typing import Any, cast

from ragflow_lg.adapters.knowledge.attachments import document_type, file_text, is_audio
from ragflow_lg.adapters.system_services import InlineFiles, inline_bytes, inline_content
from ragflow_lg.base.errors import ServiceError
from ragflow_lg.base.local_paths import local_file_id, local_path, suggest_file
from ragflow_lg.services.services import FileContent
from ragflow_lg.services.speech import Speech
from ragflow_lg.services.workers import Workers

MAX_BYTES = 10 * 1024 * 1024
"""Maximum size of a file, since its text is stored in the session and sent to the model."""

_ID_KEYS = ("id", "file_id", "doc_id")


class LocalFiles(InlineFiles):
    """The `ragflow_lg.services.services.Files` that also reads files by the ids of `ragflow_lg.base.local_paths`.

    Nothing is kept, so a turn that goes on needs its files where they were, unchanged.
    """

    def __init__(self, workers: Workers, speech: Speech | None = None) -> None:
        """``speech`` transcribes audio files."""
        self._workers = workers
        self.speech = speech

    async def read(self, files: Sequence[Any]) -> list[str]:
        """Return the text of each file, or an image as a ``data:`` URI.

        Raises:
            ServiceError: if a file cannot be read, has changed, or has no text.
        """
        return [await self._text(number, file) for number, file in enumerate(files, 1)]

    async def load(self, file: Any) -> FileContent | None:
        """Return the bytes of a file of this machine or of a ``data:`` URI, and None for anything else."""
        path = next((path for id_ in _ids_of(file) if (path := local_path(id_)) is not None), None)
        if path is None:
            return await super().load(file)
        content = await asyncio.to_thread(_read_again, path)
        if local_file_id(path, content) not in _ids_of(file):
            raise ServiceError(f"The file {str(path)!r} has changed since it was attached. Attach it again.")
        return FileContent(path.name, content)

    async def _text(self, number: int, file: Any) -> str:
        if (content := inline_content(file)) is not None:
            return await inline_document(self._workers, file, content)
        if (loaded := await self.load(file)) is None:
            return self._content(number, file)
        if self.speech and self.speech.can_transcribe and is_audio(loaded.name, ""):
            return await self.speech.transcribe(loaded.name, "", loaded.content)
        return await file_text(self._workers, loaded.name, "", loaded.content)


async def inline_document(workers: Workers, file: Any, content: str) -> str:
    """Return the content of a file that contains it: the text of a document's ``data:`` URI, or else the content.

    Raises:
        ServiceError: if the document cannot be read.
    """
    kind = document_type(content)
    document = inline_bytes(file) if kind else None
    if document is None:
        return content
    has_name = isinstance(file, Mapping) and bool(cast("Mapping[str, Any]", file).get("name"))
    name = document.name if has_name else f"uploaded{guess_extension(kind) or '.txt'}"
    return await file_text(workers, name, kind, document.content)


def read_local_file(path: Path) -> bytes:
    """Return the content of a file.

    Raises:
        ServiceError: if it cannot be read or is too large.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ServiceError(f"{str(path)!r} cannot be read: {reason}.{suggest_file(path)}") from None
    except ValueError as error:
        raise ServiceError(f"{str(path)!r} cannot be read: {error}.") from None
    if len(content) > MAX_BYTES:
        raise ServiceError(f"{str(path)!r} is larger than {MAX_BYTES // 1024**2} MiB.")
    return content


def _read_again(path: Path) -> bytes:
    """Return the content of a regular file: reading another kind might never end."""
    if path.exists() and not path.is_file():
        raise ServiceError(f"{str(path)!r} cannot be read: it is not a file.")
    return read_local_file(path)


def _ids_of(file: Any) -> list[str]:
    fields: Mapping[str, Any] = cast("Mapping[str, Any]", file) if isinstance(file, Mapping) else {}
    return [fields[key] for key in _ID_KEYS if isinstance(fields.get(key), str)]
