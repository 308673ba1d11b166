"""The section for CodeExec's sandbox."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from ragflow_lg.adapters.code.code_settings import DEFAULT_LIMITS, CodeLimits, CodeSettings, Interpreters, Provider
from ragflow_lg.server.settings.sections import KeySection, web_address

Size = Annotated[int, Field(gt=0)]


class CodeSection(KeySection):
    """``[code]``: where CodeExec runs programs, and their limits. See ``docs/code.md``."""

    provider: Provider = "auto"
    """``bubblewrap`` or ``deno`` on this machine, ``http`` for a service, ``refuse`` for none. ``auto`` takes the
    service if ``url`` is set, then Bubblewrap, then Deno."""
    url: str = ""
    """Address of a sandbox service: RAGFlow's own, or ``ragflow-lg sandbox serve``. ``api_key`` is its key, if any."""
    bubblewrap: str = ""
    """Path of ``bwrap``. Default: the installed one."""
    python: str = ""
    """Path of the Python that runs programs. Default: the system's."""
    node: str = ""
    """Path of the Node.js that runs programs. Default: the system's."""
    deno: str = ""
    """Path of Deno. Default: that of the package ``deno``, or the installed one."""
    pyodide: str = ""
    """Folder with Pyodide, the Python in Deno. Default: the one in the user's cache."""
    folders: tuple[str, ...] = ()
    """Folders that programs in Bubblewrap can read, in addition to those of the system's programs and libraries."""
    concurrency: Annotated[int, Field(gt=0, le=256)] = 8
    """How many programs run at the same time. No tenant uses all of these slots."""
    queue: Size = 100
    """How many of a tenant's programs may wait."""
    timeout_s: Annotated[float, Field(gt=0, le=3600)] = DEFAULT_LIMITS.timeout_s
    cpu_s: Annotated[int, Field(gt=0, le=3600)] = DEFAULT_LIMITS.cpu_s
    memory_bytes: Annotated[int, Field(ge=64 * 1024**2)] = DEFAULT_LIMITS.memory_bytes
    processes: Annotated[int, Field(ge=16)] = DEFAULT_LIMITS.processes
    output_bytes: Size = DEFAULT_LIMITS.output_bytes
    result_bytes: Size = DEFAULT_LIMITS.result_bytes
    code_bytes: Size = DEFAULT_LIMITS.code_bytes
    file_bytes: Size = DEFAULT_LIMITS.file_bytes
    scratch_bytes: Size = DEFAULT_LIMITS.scratch_bytes
    files: Size = DEFAULT_LIMITS.files
    artifacts: Size = DEFAULT_LIMITS.artifacts
    artifact_bytes: Size = DEFAULT_LIMITS.artifact_bytes
    artifact_types: tuple[str, ...] = DEFAULT_LIMITS.artifact_types
    """Extensions of files that programs may create for the user."""
    artifact_days: Annotated[float, Field(gt=0)] = 7.0
    """How long the server keeps such files."""

    @field_validator("url")
    @classmethod
    def _is_address(cls, value: str) -> str:
        return web_address(value) if value.strip() else ""

    @field_validator("artifact_types")
    @classmethod
    def _are_extensions(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if any(not extension.startswith(".") or extension != extension.lower() for extension in value):
            raise ValueError("should be extensions in lower case with their dot, such as .png")
        return value

    @property
    def settings(self) -> CodeSettings:
        """The settings of the sandbox."""
        return CodeSettings(
            self.provider,
            self.url,
            self.key_text(),
            self.bubblewrap,
            CodeLimits(**{name: getattr(self, name) for name in CodeLimits.__struct_fields__}),
            Interpreters(self.python, self.node, self.folders),
            self.concurrency,
            self.queue,
            self.deno,
            self.pyodide,
        )
