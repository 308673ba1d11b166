"""The services that the runs of a tenant's agent use. Artifacts of CodeExec become files of the agent, which expire."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ragflow_lg.adapters.knowledge.attachments import file_text
from ragflow_lg.base.errors import RequestError, ServiceError
from ragflow_lg.server.agents.file_store import MAX_READ_BYTES, FileStore, TenantFiles, file_store, has_secret
from ragflow_lg.services.artifacts import Artifact, StoredArtifact
from ragflow_lg.services.memories import Memories
from ragflow_lg.services.speech import Speech

if TYPE_CHECKING:
    from ragflow_lg.server.assembly.app_state import AppState
    from ragflow_lg.services.services import Services
    from ragflow_lg.services.workers import Workers


ARTIFACT_PATH = "/api/v1/documents/artifact/"
"""RAGFlow's path of artifacts. Its front end recognises them by it."""

MAX_TEXT_CHARS = 100_000
"""How much of an artifact's text becomes part of the node's output."""

_FILE_ADDRESS = re.compile(
    r"/api/v1/(?:documents/artifact/|agents/attachments/|agents/download\?id=|document/download/)(?P<id>[0-9a-f]{32})\b"
)
"""The addresses of files in RAGFlow's API."""
_DAY_MS = 24 * 3600 * 1000
ARTIFACT_DAYS = 7
"""How long the server keeps the files of programs."""


class TenantArtifacts(Struct, frozen=True):
    """The server's implementation of `ragflow_lg.services.artifacts.Artifacts`."""

    app_state: AppState
    files: FileStore
    workers: Workers
    agent: str
    visitor: str = ""
    """The visitor of an embedded page whose session it is, or ``""``."""
    is_page: bool = False
    """Whether the visitor begins the runs, so that they read only what it may read."""

    async def store(self, artifact: Artifact, *, has_text: bool = True) -> StoredArtifact:
        """Store an artifact as a file of the agent, for `ARTIFACT_DAYS`.

        Raises:
            QuotaError: If the tenant or the visitor has too many files or too many bytes.
            ServiceError: If the file cannot be written.
        """
        now = self.app_state.now_ms()
        expire_ms = now + ARTIFACT_DAYS * _DAY_MS
        row = await self.files.save(
            self.app_state.new_id(),
            artifact.name,
            artifact.mime_type,
            artifact.content,
            now,
            self.agent,
            visitor=self.visitor,
            expire_ms=expire_ms,
        )
        url = f"{ARTIFACT_PATH}{row.id}{PurePosixPath(artifact.name).suffix.lower()}"
        return StoredArtifact(url, await self._text(artifact) if has_text else "", row.id)

    async def find(self, address: str) -> bytes | None:
        """Return the content of a file of the agent by its address, if the file exists and is not too large.

        Raises:
            ServiceError: If it cannot be read.
        """
        match = _FILE_ADDRESS.match(address)
        row = await self.files.find_valid(match["id"], self.app_state.now_ms()) if match else None
        if row is None or row.agent_id != self.agent or row.size_bytes > MAX_READ_BYTES:
            return None
        if self.is_page and not await self.files.may_read(row, self.visitor):
            return None
        try:
            return await self.files.content(row)
        except RequestError:
            return None

    async def _text(self, artifact: Artifact) -> str:
        """Return the text of an artifact; ``""`` for an image, and a note if it cannot be read."""
        if artifact.mime_type.startswith("image/"):
            return ""
        try:
            text = await file_text(self.workers, artifact.name, artifact.mime_type, artifact.content)
        except ServiceError as error:
            return str(error)
        return text if len(text) <= MAX_TEXT_CHARS else text[:MAX_TEXT_CHARS] + " …"


def tenant_services(
    app_state: AppState, tenant: str, agent: str = "", *, visitor: str = "", is_page: bool = False
) -> Services:
    """Return the services for the runs of a tenant's agent, with access to its uploads.

    ``visitor`` is the visitor of an embedded page whose session it is, or ``""``. If the page also begins the runs,
    they have access only to files of the visitor for the agent and, if it has a secret, to memories of its own.
    """
    services = app_state.services_of(tenant, agent)
    workers, store = services.workers, file_store(app_state, tenant)
    integrations = dict(services.integrations)
    if memories := integrations.get(Memories):
        integrations[Memories] = memories.for_agent(agent, _find_realm(agent, visitor) if is_page else "")
    return replace(
        services,
        files=TenantFiles(store, workers, services.integrations.get(Speech), *((agent, visitor) if is_page else ())),
        artifacts=TenantArtifacts(app_state, store, workers, agent, visitor, is_page),
        integrations=integrations,
    )


def _find_realm(agent: str, visitor: str) -> str:
    return f"page {agent}/{visitor}/" if has_secret(visitor) else f"page {agent}/"
