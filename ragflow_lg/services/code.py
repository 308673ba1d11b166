"""Running code that a canvas or a model has written: requests, results, and the Protocols of sandbox and artifacts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct, field

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.values import JsonValue

Language: TypeAlias = Literal["python", "javascript"]

ARTIFACT_TYPES: Mapping[str, str] = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".svg": "image/svg+xml",
    ".pdf": "application/pdf",
    ".csv": "text/csv",
    ".json": "application/json",
    ".html": "text/html",
}
"""The media types of artifacts by extension. RAGFlow collects the same ones."""


class CodeRequest(Struct, frozen=True):
    """A program that defines ``main``, and the arguments for ``main``."""

    language: Language
    code: str
    arguments: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])


class Artifact(Struct, frozen=True):
    """A file that a run has created: from the folder ``artifacts`` of a program, or a document."""

    name: str
    mime_type: str
    content: bytes


class CodeResult(Struct, frozen=True):
    """What a program printed, returned and created."""

    stdout: str = ""
    stderr: str = ""
    exit_code: int = 0
    has_value: bool = False
    """Whether ``main`` returned a value; null is one."""
    value: JsonValue = None
    artifacts: Sequence[Artifact] = ()


class CodeSandbox(Protocol):
    """Runs programs that may be hostile."""

    async def run(self, request: CodeRequest) -> CodeResult:
        """Run a program. One that fails has a result as well, without a value. Cancelling ends the program.

        Raises:
            CodeLimitError: if the program exceeds a limit.
            ServiceError: if the sandbox fails.
            SettingsError: if there is no sandbox, or it lacks the language.
        """
        ...


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


class NoSandbox:
    """The `CodeSandbox` that refuses every program; ``reason`` says why, and what to do."""

    def __init__(self, reason: str = "This program has no sandbox for CodeExec.") -> None:
        self.reason = reason

    async def run(self, request: CodeRequest) -> CodeResult:
        """Refuse the program."""
        raise SettingsError(self.reason)


class NoArtifacts:
    """The `Artifacts` of programs without a file store: artifacts are named, but not kept."""

    async def store(self, artifact: Artifact, *, has_text: bool = True) -> StoredArtifact:
        """Keep nothing. Return the text of an artifact that consists of text."""
        is_text = has_text and artifact.mime_type in ("text/csv", "application/json", "text/html")
        return StoredArtifact(text=artifact.content.decode("utf-8", "replace") if is_text else "")

    async def find(self, address: str) -> bytes | None:
        """Return None: nothing is kept."""
        return None
