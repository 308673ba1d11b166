"""The settings for CodeExec's sandbox, their section, and the interpreters that run programs in it."""

from __future__ import annotations

import os
import shutil
from typing import Annotated, Literal, TypeAlias

from msgspec import Struct
from pydantic import Field, field_validator

from ragflow_lg.base.errors import CodeLimitError, SettingsError
from ragflow_lg.integrations.code.programs import ARTIFACT_TYPES, Language
from ragflow_lg.server.settings.sections import KeySection, web_address

LimitName: TypeAlias = Literal[
    "timeout_s",
    "cpu_s",
    "memory_bytes",
    "processes",
    "output_bytes",
    "result_bytes",
    "code_bytes",
    "file_bytes",
    "scratch_bytes",
    "files",
    "artifacts",
    "artifact_bytes",
    "artifact_types",
]
"""The name of a limit, which is that of its setting in ``[code]``."""

MEBIBYTE = 1024 * 1024


class CodeLimits(Struct, frozen=True):
    """The limits on one program. Source of the names: the settings."""

    timeout_s: float = 10.0
    """How long the program may take."""
    cpu_s: int = 10
    """Processor time of each of its processes."""
    memory_bytes: int = 512 * MEBIBYTE
    """Memory of all its processes together."""
    processes: int = 64
    """Its processes and threads."""
    output_bytes: int = MEBIBYTE
    """What it prints, standard output and standard error together."""
    result_bytes: int = 4 * MEBIBYTE
    """What ``main`` returns, as JSON."""
    code_bytes: int = MEBIBYTE
    """The program and its arguments, as JSON."""
    file_bytes: int = 64 * MEBIBYTE
    """One file that it writes."""
    scratch_bytes: int = 128 * MEBIBYTE
    """All files that it writes, which are in memory."""
    files: int = 10_000
    """The number of files that it writes."""
    artifacts: int = 10
    """The number of its artifacts."""
    artifact_bytes: int = 10 * MEBIBYTE
    """One artifact."""
    artifact_types: tuple[str, ...] = tuple(ARTIFACT_TYPES)
    """The extensions of artifacts."""


DEFAULT_LIMITS = CodeLimits()

_TEXTS: dict[LimitName, str] = {
    "timeout_s": "The code did not finish within {:g} s and was stopped.",
    "cpu_s": "The code used more than {:g} s of processor time and was stopped.",
    "memory_bytes": "The code needed more than {:,} bytes of memory and was stopped.",
    "processes": "The code tried to start more than {:,} processes and threads.",
    "output_bytes": "The code printed more than {:,} bytes and was stopped.",
    "result_bytes": "The value that main returned has more than {:,} bytes as JSON.",
    "code_bytes": "The code and its arguments have more than {:,} bytes.",
    "file_bytes": "The code tried to write a file with more than {:,} bytes.",
    "scratch_bytes": "The code tried to write more than {:,} bytes to its files.",
    "files": "The code created more than {:,} files and was stopped.",
    "artifacts": "The folder artifacts contains more than {:,} files.",
    "artifact_bytes": "The artifact {detail!r} has more than {:,} bytes.",
    "artifact_types": "The artifact {detail!r} is not a file of a permitted type: {}.",
}


def exceeded(limits: CodeLimits, name: LimitName, detail: str = "") -> CodeLimitError:
    """Return the error for a program that exceeds a limit. ``detail`` is the name of an artifact."""
    value = getattr(limits, name)
    shown = ", ".join(limits.artifact_types) if name == "artifact_types" else value
    text = _TEXTS[name].format(shown, detail=detail[:200])
    is_setting = name in ("timeout_s", "memory_bytes")
    advice = f" The limit is {name} in the section [code] of the settings." if is_setting else ""
    return CodeLimitError(f"{text}{advice}", name)


Provider: TypeAlias = Literal["auto", "bubblewrap", "http", "refuse"]

SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
"""Where the system's interpreters are, on the host and in the sandbox."""


class Interpreters(Struct, frozen=True):
    """The interpreters of programs, and folders that programs can read. Source of the names: the settings."""

    python: str = ""
    """Path of Python; ``""`` for the system's."""
    node: str = ""
    """Path of Node.js; ``""`` for the system's."""
    folders: tuple[str, ...] = ()
    """Folders that programs can read, at the same path."""

    def path(self, language: Language) -> str:
        """Return the path of a language's interpreter.

        Raises:
            SettingsError: if it is not installed.
        """
        name, title = ("python", "Python") if language == "python" else ("node", "Node.js")
        path: str = getattr(self, name) or shutil.which("python3" if name == "python" else name, path=SYSTEM_PATH) or ""
        if not path or not os.access(path, os.X_OK):
            where = f" at {path!r}" if path else ""
            raise SettingsError(
                f"CodeExec needs {title}, which is not installed{where}. Install it, or set {name} in the section "
                "[code] of the settings to its path."
            )
        return path


SYSTEM_INTERPRETERS = Interpreters()


class CodeSection(KeySection):
    """``[code]``: where CodeExec runs programs, and their limits. See ``ragflow_lg/integrations/code/code.md``."""

    provider: Provider = "auto"
    """``bubblewrap`` on this machine, ``http`` for a service, ``refuse`` for none. ``auto`` takes the service if it has
    a ``url``, otherwise Bubblewrap."""
    url: str = ""
    """Address of a sandbox service: RAGFlow's own, or ``ragflow-lg sandbox serve``. ``api_key`` is its key, if any."""
    bubblewrap: str = ""
    """Path of ``bwrap``. Default: the installed one."""
    python: str = ""
    """Path of the Python that runs programs. Default: the system's."""
    node: str = ""
    """Path of the Node.js that runs programs. Default: the system's."""
    folders: tuple[str, ...] = ()
    """Folders that programs in Bubblewrap can read, in addition to those of the system's programs and libraries."""
    concurrency: Annotated[int, Field(gt=0, le=256)] = 8
    """How many programs run at the same time. No tenant uses all of these slots."""
    timeout_s: Annotated[float, Field(gt=0, le=3600)] = DEFAULT_LIMITS.timeout_s
    memory_bytes: Annotated[int, Field(ge=64 * 1024**2)] = DEFAULT_LIMITS.memory_bytes

    @field_validator("url")
    @classmethod
    def _is_address(cls, value: str) -> str:
        return web_address(value) if value.strip() else ""

    def check(self, name: str) -> None:
        """Raise SettingsError if the service has no address."""
        if self.provider == "http" and not self.url:
            raise SettingsError("The provider http needs the setting url.")

    @property
    def limits(self) -> CodeLimits:
        """The limits on a program."""
        return CodeLimits(timeout_s=self.timeout_s, memory_bytes=self.memory_bytes)

    @property
    def interpreters(self) -> Interpreters:
        """The interpreters of programs."""
        return Interpreters(self.python, self.node, self.folders)
