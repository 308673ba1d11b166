"""Running code that a canvas or a model has written: requests, results, and the Protocol of a sandbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct, field

from ragflow_lg.base.values import JsonValue
from ragflow_lg.services.artifacts import Artifact

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
