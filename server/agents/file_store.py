"""Uploaded files: contents in a folder, metadata in the database, what runs may read of them, and names of visitors."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import orjson
from msgspec import Struct

from ragflow_lg.adapters.knowledge.attachments import file_text, is_audio
from ragflow_lg.adapters.local_files import inline_document
from ragflow_lg.adapters.system_services import INLINE_KEYS, inline_bytes, inline_content
from ragflow_lg.base.errors import RequestError, ServiceError, SessionKeyError
from ragflow_lg.checkpoints.key_ring import require_plain
from ragflow_lg.server.database.file_repository import FileQuery, FileRepository
from ragflow_lg.server.database.tables import ID_CHARS, TITLE_CHARS, FileRow
from ragflow_lg.services.services import FileContent
from ragflow_lg.services.speech import Speech
from ragflow_lg.services.workers import Workers

if TYPE_CHECKING:
    from ragflow_lg.checkpoints.key_ring import KeyRing
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.server.database.database import Database


_MARK = "v"
"""What the name of a visitor with a secret begins with. Ids of keys, which are hexadecimal, do not."""


def name_visitor(key_id: str, secret: str) -> str:
    """Return the name of the visitor with a secret: a digest, from which the secret cannot be found."""
    digest = hashlib.sha256(f"{key_id}\0{secret}".encode()).hexdigest()
    return _MARK + digest[: ID_CHARS - len(_MARK)]


def has_secret(visitor: str) -> bool:
    """Return whether a visitor is known by a secret. All others of a page have the id of its key as their name."""
    return visitor.startswith(_MARK)


MAX_READ_BYTES = 10 * 1024 * 1024
"""Maximum size of a file that a run can read, since its text is stored in the session and sent to the model."""


ID_KEYS = ("id", "file_id", "doc_id")
"""Keys of the id in the description of a file: an upload's, RAGFlow's, and that of a file that a run has written."""

_ID = re.compile(rf"[0-9a-f]{{{ID_CHARS}}}")
_UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069/\\]")
"""Characters removed from names, which are sent in headers and displayed, and are not paths."""

_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,126}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}", re.ASCII)
_UNKNOWN_TYPE = "application/octet-stream"
_ENCRYPTED = b"ragflow-lg\0encrypted\0"
"""What is before the content of an encrypted file."""


FILE_LIMITS = {
    "max_files": 10_000,
    "max_bytes": 1024**3,
    "max_page_files": 1_000,
    "max_page_bytes": 256 * 1024**2,
    "max_visitor_files": 100,
    "max_visitor_bytes": 32 * 1024**2,
}
"""How much each tenant, each key of embedded pages and each of its visitors may store."""


class FileStore(Struct, frozen=True):
    """One tenant's files. A file's path depends only on its id, never on its name."""

    folder: Path
    database: Database
    tenant: str
    max_files: int
    max_bytes: int
    max_page_files: int = 0
    """Maximum number of files of one key of embedded pages, and their maximum total size; 0 for no limit."""
    max_page_bytes: int = 0
    max_visitor_files: int = 0
    """The same for one of its visitors who has a secret."""
    max_visitor_bytes: int = 0
    keys: KeyRing | None = None
    """Encrypts the contents."""

    async def save(
        self,
        file_id: str,
        name: str,
        mime_type: str,
        content: bytes,
        now_ms: int,
        agent: str,
        *,
        page_key: str = "",
        visitor: str = "",
        expire_ms: int = 0,
    ) -> FileRow:
        """Store a file for an agent and return its metadata. It is deleted at ``expire_ms``, unless that is 0.

        Raises:
            QuotaError: If the tenant, the key of the page or the visitor has too many files or too many bytes.
            ServiceError: If the file cannot be written to the folder.
        """
        row = FileRow(
            id=file_id,
            agent_id=agent,
            name=safe_file_name(name),
            mime_type=normalize_mime_type(mime_type),
            size_bytes=len(content),
            create_ms=now_ms,
            page_key=page_key,
            visitor=visitor,
            expire_ms=expire_ms,
        )
        path = self._path(file_id)
        try:
            await asyncio.to_thread(lambda: _write(path, self._encrypt(file_id, content)))
        except OSError as error:
            raise ServiceError(f"The file {row.name!r} cannot be stored: {error.strerror}.") from error
        try:
            if has_secret(visitor):
                await self._files.require_within_visitor(row, self.max_visitor_files, self.max_visitor_bytes)
            if page_key:
                await self._files.require_within_page(row, self.max_page_files, self.max_page_bytes)
            await self._files.add_within(row, max_files=self.max_files, max_bytes=self.max_bytes)
        except BaseException:
            await asyncio.to_thread(_remove, path)
            raise
        return row

    async def find(self, file_id: str) -> FileRow | None:
        """Return a file's metadata, or None."""
        return await self._files.get(file_id) if _ID.fullmatch(file_id) else None

    async def find_valid(self, file_id: str, now_ms: int) -> FileRow | None:
        """Return a file's metadata, or None if there is none or the file has expired."""
        row = await self.find(file_id)
        return row if row is not None and (not row.expire_ms or row.expire_ms > now_ms) else None

    async def may_read(self, file: FileRow, visitor: str) -> bool:
        """Return whether a visitor of an embedded page, ``""`` for none, may read a file.

        That is one of its own, or one of the owner that a canvas of the agent names.
        """
        return visitor in ("", file.visitor) or (not file.visitor and await self._files.is_in_canvas(file))

    async def content(self, file: FileRow) -> bytes:
        """Return a file's bytes.

        Raises:
            RequestError: If they have been deleted.
            ServiceError: If they cannot be read.
        """
        try:
            return await asyncio.to_thread(lambda: self._decrypt(file.id, self._path(file.id).read_bytes()))
        except SessionKeyError as error:
            raise ServiceError(f"The file {file.name!r} cannot be read. {error}") from error
        except FileNotFoundError:
            raise RequestError("document not found", status=404) from None
        except OSError as error:
            raise ServiceError(f"The file {file.name!r} cannot be read: {error.strerror}.") from error

    async def list(self, query: FileQuery, page: int, page_size: int) -> tuple[list[FileRow], int, int]:
        """Return a page of files, newest first, with the number of all files and their total size."""
        return await self._files.find(query, page, page_size)

    async def delete(self, file: FileRow) -> None:
        """Delete a file."""
        await self._files.delete(file.id)
        await asyncio.to_thread(_remove, self._path(file.id))

    async def delete_of_agent(self, agent_id: str) -> None:
        """Delete all of an agent's files."""
        for file_id in await self._files.delete_of_agent(agent_id):
            await asyncio.to_thread(_remove, self._path(file_id))

    def _encrypt(self, file_id: str, content: bytes) -> bytes:
        return content if self.keys is None else _ENCRYPTED + self.keys.encrypt(self._domain, [file_id], content)

    def _decrypt(self, file_id: str, stored: bytes) -> bytes:
        if not stored.startswith(_ENCRYPTED):
            return stored
        data = stored.removeprefix(_ENCRYPTED)
        if self.keys is None:
            require_plain(data)
            return stored  # the content itself begins so
        return self.keys.decrypt(self._domain, [file_id], data)

    @property
    def _domain(self) -> str:
        return orjson.dumps(["files", self.tenant]).decode()

    @property
    def _files(self) -> FileRepository:
        return FileRepository(self.database, self.tenant)

    def _path(self, file_id: str) -> Path:
        owner = hashlib.sha256(self.tenant.encode("utf-8", "surrogatepass")).hexdigest()[:ID_CHARS]
        return self.folder.expanduser() / owner / file_id[:2] / file_id


def safe_file_name(name: str) -> str:
    r"""Return the last part of a path, without characters that could refer to another path or break a header.

    >>> safe_file_name("../../etc/pass\r\nwd"), safe_file_name(".."), safe_file_name("C:\\notes.txt")
    ('passwd', 'file', 'notes.txt')
    """
    last = name.replace("\\", "/").rpartition("/")[2]
    result = _UNFIT.sub("", last).encode("utf-8", "ignore").decode().strip()
    if len(result) > TITLE_CHARS:
        stem, dot, ending = result.rpartition(".")
        tail = dot + ending if stem and len(ending) < 16 else ""
        result = result[: TITLE_CHARS - len(tail)] + tail
    return result if result.strip(".") else "file"


def normalize_mime_type(mime_type: str) -> str:
    r"""Return a content type without parameters. An invalid one becomes the type for arbitrary bytes.

    >>> normalize_mime_type("Text/Plain; charset=utf-8"), normalize_mime_type("text/html\r\nX: y")
    ('text/plain', 'application/octet-stream')
    """
    kind = mime_type.partition(";")[0].strip().lower()
    return kind if _TYPE.fullmatch(kind) else _UNKNOWN_TYPE


def _write(path: Path, content: bytes) -> None:
    _make_private_folders(path.parent)
    handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)


def _make_private_folders(folder: Path) -> None:
    """Create a folder with its parents. ``Path.mkdir`` would apply the mode to the last one only."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(exist_ok=True, mode=0o700)


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def file_store(app_state: AppState, tenant: str) -> FileStore:
    """Return a tenant's file store."""
    return FileStore(
        app_state.settings.server.files, app_state.database, tenant, **FILE_LIMITS, keys=app_state.store.keys
    )


class TenantFiles(Struct, frozen=True):
    """The server's implementation of `ragflow_lg.services.services.Files`."""

    store: FileStore
    workers: Workers
    speech: Speech | None = None
    """What transcribes audio files."""
    agent: str = ""
    """The agent whose files can be read, because a visitor of its page names them; ``""`` for all agents."""
    visitor: str = ""
    """The visitor."""

    async def read(self, files: Sequence[Any]) -> list[str]:
        """Return each file's text, or an image as a ``data:`` URI. Objects that contain the content are not looked up.

        Raises:
            ServiceError: If a file does not exist, is too large, or has no text.
        """
        return [await self._read(number, file) for number, file in enumerate(files, 1)]

    async def load(self, file: Any) -> FileContent | None:
        """Return the bytes of a file with an id, or of a ``data:`` URI. Return None for anything else.

        Raises:
            ServiceError: If the file does not exist, is too large, or is damaged.
        """
        fields: Mapping[str, Any] = cast("Mapping[str, Any]", file) if isinstance(file, Mapping) else {}
        file_id = next((fields[key] for key in ID_KEYS if isinstance(fields.get(key), str)), None)
        if file_id is None:
            return inline_bytes(file)
        row, content = await self._content(file_id)
        return FileContent(row.name, content)

    async def _read(self, number: int, file: Any) -> str:
        fields: Mapping[str, Any] = cast("Mapping[str, Any]", file) if isinstance(file, Mapping) else {}
        file_id = fields.get("id")
        if not isinstance(file_id, str) or any(isinstance(fields.get(key), str) for key in INLINE_KEYS):
            if (content := inline_content(file)) is not None:
                return await self._inline_text(file, content)
            problem = "has no `id`" if isinstance(file, Mapping) else f"is not a file but of type {type(file).__name__}"
            raise ServiceError(f"File {number} {problem}. Send the `data` of an upload unchanged.")
        row, content = await self._content(file_id)
        if self.speech and self.speech.can_transcribe and is_audio(row.name, row.mime_type):
            return await self.speech.transcribe(row.name, row.mime_type, content)
        return await file_text(self.workers, row.name, row.mime_type, content)

    async def _inline_text(self, file: Any, content: str) -> str:
        """Return the content of an object. Audio is transcribed."""
        if self.speech and self.speech.can_transcribe and content.startswith("data:audio/"):
            audio = inline_bytes(file)
            if audio is not None:
                return await self.speech.transcribe(audio.name, content[5:100].partition(";")[0], audio.content)
        return await inline_document(self.workers, file, content)

    async def _content(self, file_id: str) -> tuple[FileRow, bytes]:
        row = await self.store.find(file_id)
        is_open = row is not None and self.agent in ("", row.agent_id) and await self.store.may_read(row, self.visitor)
        if row is None or not is_open:
            raise ServiceError(f"There is no file {file_id!r:.80}; upload it first.")
        if row.size_bytes > MAX_READ_BYTES:
            raise ServiceError(
                f"The file {row.name!r} exceeds the {MAX_READ_BYTES // 1024**2} MiB that a run can read."
            )
        try:
            return row, await self.store.content(row)
        except RequestError:
            raise ServiceError(f"The file {row.name!r} has been deleted; upload it again.") from None
