"""The settings for CodeExec's sandbox, and the interpreters that run programs in it."""

from __future__ import annotations

import os
import shutil
from typing import Literal, TypeAlias

from msgspec import Struct

from ragflow_lg.adapters.code.code_limits import DEFAULT_LIMITS, CodeLimits
from ragflow_lg.base.errors import SettingsError
from ragflow_lg.services.code import Language

Provider: TypeAlias = Literal["auto", "bubblewrap", "deno", "http", "refuse"]

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


class CodeSettings(Struct, frozen=True):
    """How programs are run. Source of the names: the section ``[code]`` of the settings."""

    provider: Provider = "auto"
    url: str = ""
    key: str = ""
    bubblewrap: str = ""
    limits: CodeLimits = DEFAULT_LIMITS
    interpreters: Interpreters = SYSTEM_INTERPRETERS
    concurrency: int = 8
    queue: int = 100
    deno: str = ""
    pyodide: str = ""

    def __repr__(self) -> str:
        """Hide the key."""
        return f"CodeSettings(provider={self.provider!r})"
