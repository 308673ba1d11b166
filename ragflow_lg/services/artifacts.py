"""Files that runs create: what one is, and the Protocol of what keeps them."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct


class Artifact(Struct, frozen=True):
    """A file that a run has created: from the folder ``artifacts`` of a program, or a document."""

    name: str
    mime_type: str
    content: bytes


class StoredArtifact(Struct, frozen=True):
    """Where an artifact can be downloaded, and its text."""

    url: str = ""
    """The address, or ``""`` if the artifact is not kept."""
    text: str = ""
    id: str = ""
    """The id of the file, or ``""`` if the artifact is not kept."""


class Artifacts(Protocol):
    """Keeps the artifacts of runs."""

    async def store(self, artifact: Artifact, *, has_text: bool = True) -> StoredArtifact:
        """Keep an artifact, and with ``has_text`` extract its text.

        Raises:
            RagflowLgError: if it cannot be kept.
        """
        ...

    async def find(self, address: str) -> bytes | None:
        """Return the content of a file of the run's agent by its address on this server, or None.

        Raises:
            RagflowLgError: if it cannot be read.
        """
        ...


class NoArtifacts:
    """The `Artifacts` of programs without a file store: artifacts are named, but not kept."""

    async def store(self, artifact: Artifact, *, has_text: bool = True) -> StoredArtifact:
        """Keep nothing. Return the text of an artifact that consists of text."""
        is_text = has_text and artifact.mime_type in ("text/csv", "application/json", "text/html")
        return StoredArtifact(text=artifact.content.decode("utf-8", "replace") if is_text else "")

    async def find(self, address: str) -> bytes | None:
        """Return None: nothing is kept."""
        return None
