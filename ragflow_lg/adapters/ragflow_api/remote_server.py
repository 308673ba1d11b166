"""Which RAGFlow answers: 0.2x, which is written in Python, or 1.0, which is written in Go."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from ragflow_lg.adapters.ragflow_api.api_client import RagflowApi, as_map, read_text
from ragflow_lg.base.errors import RefusalError

OWN = "ragflow-lg"
"""How the version of such a server begins. It stores the same, also for programs that it answers as 1.0 does."""


class RemoteServer(Struct, frozen=True):
    """What a server says about itself."""

    version: str
    """Its version, or ``""`` if it does not tell it."""
    is_go: bool
    can_search: bool = True
    """Whether it can be asked to search datasets."""

    @property
    def name(self) -> str:
        """The server in words."""
        if self.version.startswith(OWN):
            return self.version
        unknown = "1.0" if self.is_go else "(it does not tell its version)"
        return f"RAGFlow {self.version or unknown}{' (Go)' if self.is_go else ''}"

    @property
    def limits(self) -> list[str]:
        """What cannot be read from it with an API key."""
        lines: list[str] = []
        if self.is_go:
            lines += [
                "forms that wait: 1.0 does not store that a session waits, so its question has to be asked again",
                "outputs of nodes in sessions: 1.0 does not store them",
            ]
        elif not self.version:
            lines.append("published versions and MCP servers, if it is RAGFlow 0.25.0 or earlier")
        if not self.can_search:
            lines.append("searches: it has no /api/v1/retrieval, so datasets have to be copied (--copy-datasets)")
        return lines


async def recognise(api: RagflowApi) -> RemoteServer:
    """Return what answers.

    Raises:
        ServiceError: if the server cannot be reached.
    """
    language = as_map(await _ask(api, "/api/v1/language")).get("language")
    version = await _ask(api, "/api/v1/system/version")
    text = read_text({"version": version}, "version", max_chars=60) if isinstance(version, str) else ""
    is_go = (api.is_go or language == "go") and not text.startswith(OWN)
    return RemoteServer(" ".join(text.split()), is_go, not is_go or await _can_search(api))


async def _ask(api: RagflowApi, path: str) -> Any:
    """Return what an optional route answers, or None."""
    try:
        return await api.get(path)
    except RefusalError as error:
        if error.is_retryable:
            raise
        return None


async def _can_search(api: RagflowApi) -> bool:
    try:
        await api.send("POST", "/api/v1/retrieval", body={})
    except RefusalError as error:
        return not error.is_unknown_route
    return True
