"""A sandbox service on 127.0.0.1 that replies to ``POST /run`` with the entries of a script."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from ragflow_lg.services.artifacts import Artifact, StoredArtifact
from tests.fakes.http_server import HttpServer, Received, Route


class SandboxService(HttpServer):
    """The service. Each entry is used once, unless it repeats; ``match`` must occur in the program."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[Mapping[str, Any]] = []
        self.health = 200
        self.calls: list[dict[str, Any]] = []
        """The bodies of the requests, with the program as ``code``."""

    def play(self, entries: Sequence[Mapping[str, Any]], health: int = 200) -> None:
        """Start a turn with these entries."""
        self.entries, self.health, self.calls = list(entries), health, []

    def _route(self, request: Received) -> Route:
        if request.path != "/run":
            return Route(request.path, status=self.health, body='{"status": "ok"}')
        body = json.loads(request.body)
        code = base64.b64decode(body.pop("code_b64")).decode()
        self.calls.append({"path": request.path, **body, "code": code})
        for index, entry in enumerate(self.entries):
            if entry.get("match", "") in code:
                if not entry.get("repeat"):
                    del self.entries[index]
                text = json.dumps(entry["reply"]) if "reply" in entry else entry.get("body", "")
                return Route("/run", status=entry.get("status", 200), body=text, delay_ms=entry.get("delay_ms", 0))
        return Route("/run", status=500, body="no scripted reply")


class NamedArtifacts:
    """Keeps artifacts under names like those of RAGFlow; the text of one is ``[parsed NAME]``."""

    def __init__(self) -> None:
        self.stored: list[Artifact] = []
        self.files: dict[str, bytes] = {}

    async def store(self, artifact: Artifact, *, has_text: bool = True) -> StoredArtifact:
        self.stored.append(artifact)
        extension = artifact.name.rpartition(".")[2]
        url = f"/api/v1/documents/artifact/{len(self.stored):032x}.{extension}?session_id=task-1"
        return StoredArtifact(url, f"[parsed {artifact.name}]" if has_text else "", f"{len(self.stored):032x}")

    async def find(self, address: str) -> bytes | None:
        return self.files.get(address)
