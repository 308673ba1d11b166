"""Uploaded files as runs read them: only the tenant's own, identified by the objects that an upload returned."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from msgspec.structs import replace

from ragflow_lg.adapters.knowledge.file_text import SUFFIXES, read_blocks
from ragflow_lg.adapters.local_files import InlineFiles
from ragflow_lg.base.errors import RequestError, ServiceError
from ragflow_lg.server.agents.file_store import FileStore

if TYPE_CHECKING:
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.services.services import Services

MAX_READ_BYTES = 10 * 1024 * 1024
"""Maximum size of a file that a run can read, since its text is stored in the session and sent to the model."""

_PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_CONTENT_KEYS = ("content", "text")
"""Keys of an object that contains the file's content."""


def file_store(app_state: AppState, tenant: str) -> FileStore:
    """Return a tenant's file store."""
    section = app_state.settings.server
    return FileStore(section.files, app_state.database, tenant, section.max_files, section.max_files_bytes)


def tenant_services(app_state: AppState, tenant: str) -> Services:
    """Return the services for a tenant's runs, with access to its uploads."""
    return replace(app_state.services, files=TenantFiles(file_store(app_state, tenant)))


class TenantFiles(Struct, frozen=True):
    """The server's implementation of `ragflow_lg.services.services.Files`."""

    store: FileStore

    async def read(self, files: Sequence[Any], layout_recognize: str) -> list[str]:
        """Return each file's text, or an image as a ``data:`` URI. Objects that contain the content are not looked up.

        Raises:
            ServiceError: If a file does not exist, is too large, or has no text.
        """
        return [await self._read(file, layout_recognize) for file in files]

    async def _read(self, file: Any, layout_recognize: str) -> str:
        fields: Mapping[str, Any] = cast("Mapping[str, Any]", file) if isinstance(file, Mapping) else {}
        file_id = fields.get("id")
        if not isinstance(file_id, str) or any(isinstance(fields.get(key), str) for key in _CONTENT_KEYS):
            return (await InlineFiles().read([file], layout_recognize))[0]
        row = await self.store.find(file_id)
        if row is None:
            raise ServiceError(f"There is no file {file_id!r:.80}; upload it first.")
        if row.size_bytes > MAX_READ_BYTES:
            raise ServiceError(
                f"The file {row.name!r} exceeds the {MAX_READ_BYTES // 1024**2} MiB that a run can read."
            )
        try:
            content = await self.store.content(row)
        except RequestError:
            raise ServiceError(f"The file {row.name!r} has been deleted; upload it again.") from None
        return await asyncio.to_thread(file_text, row.name, row.mime_type, content)


def file_text(name: str, mime_type: str, content: bytes) -> str:
    """Return a file's text, or an image as a ``data:`` URI. This is CPU-bound, so call it in a thread.

    Plain text, tables and JSON are returned unchanged. Only HTML and documents in binary formats are parsed.

    Raises:
        ServiceError: If no text can be extracted.
    """
    if mime_type in _PICTURES:
        return f"data:{mime_type};base64,{base64.b64encode(content).decode()}"
    suffix = f".{name.rpartition('.')[2].lower()}" if "." in name else ""
    if suffix in SUFFIXES and suffix in (".docx", ".pdf", ".xlsx", ".html", ".htm"):
        try:
            return "\n".join(block.text for block in read_blocks(name, content).blocks)
        except ServiceError as error:
            raise ServiceError(f"The file {name!r} cannot be read: {error}.") from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        kinds = ", ".join(sorted(SUFFIXES))
        raise ServiceError(f"The file {name!r} is not UTF-8 text, an image or one of the supported types: {kinds}.")
    return text
