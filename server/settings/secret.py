"""Keys and passwords of the settings: a text, or the variable or file that holds it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, GetCoreSchemaHandler, SecretStr
from pydantic_core import CoreSchema, core_schema

MAX_CHARS = 64 * 1024
"""How much of a file is read."""
_FORMS = 'should be a text, { env = "VARIABLE" } or { file = "PATH" }'


class Secret:
    """A key or password: ``"TEXT"``, ``{ env = "VARIABLE" }`` or ``{ file = "PATH" }``. Its ``repr`` shows no text.

    Variable and file are read whenever they are needed, and may be missing until then.
    """

    __slots__ = ("_env", "_file", "_text")

    def __init__(self, text: str = "", *, env: str = "", file: str = "") -> None:
        self._text = text
        self._env = env
        self._file = file

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return a schema that accepts the three forms. Pydantic reads no JSON from a variable that overrides it."""
        shown = core_schema.plain_serializer_function_ser_schema(repr, when_used="json")
        return core_schema.no_info_plain_validator_function(cls.parse, serialization=shown)

    @classmethod
    def parse(cls, value: object) -> Secret:
        """Return the secret of a value in the settings.

        Raises:
            ValueError: if it has another form.
        """
        if isinstance(value, Secret):
            return value
        if isinstance(value, SecretStr | str):
            return cls(value if isinstance(value, str) else value.get_secret_value())
        if isinstance(value, dict) and len(cast("dict[Any, Any]", value)) == 1:
            [(kind, place)] = cast("dict[Any, Any]", value).items()
            if kind in ("env", "file") and isinstance(place, str) and place:
                return cls(**{kind: place})
        raise ValueError(_FORMS)

    def read(self) -> str:
        """Return the text without surrounding spaces, or ``""`` if the variable or the file is missing."""
        if self._env:
            return os.environ.get(self._env, "").strip()
        if self._file:
            with suppress(OSError, RuntimeError):  # there may be no home folder
                if (path := Path(self._file).expanduser()).is_file():
                    with path.open(encoding="utf-8", errors="replace") as file:
                        return file.read(MAX_CHARS).strip()
            return ""
        return self._text

    def problem(self) -> str:
        """Return why there is no text, as the end of a sentence, or ``""`` if there is one or none is named."""
        if self._env and not self.read():
            return f"the environment variable {self._env!r} is not set"
        if self._file and not self.read():
            return f"the file {self._file!r} cannot be read, or is empty"
        return ""

    def __bool__(self) -> bool:
        """Return whether a text, a variable or a file is named."""
        return bool(self._text or self._env or self._file)

    def __eq__(self, other: object) -> bool:
        """Compare the forms."""
        return isinstance(other, Secret) and self._forms == other._forms

    def __hash__(self) -> int:
        return hash(self._forms)

    def __repr__(self) -> str:
        return f"Secret(env={self._env!r}, file={self._file!r}{', text=…' if self._text else ''})"

    @property
    def _forms(self) -> tuple[str, str, str]:
        return self._text, self._env, self._file


def missing_secrets(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield the place of each secret in the settings that is not where it should be, and why."""
    if isinstance(value, Secret):
        if problem := value.problem():
            yield place, problem
    elif isinstance(value, BaseModel | Mapping):
        entries: dict[str, Any] = dict(cast("Any", value))
        for name, part in entries.items():
            yield from missing_secrets(part, f"{place}.{name}" if place else str(name))
    elif isinstance(value, tuple):
        for number, part in enumerate(cast("tuple[Any, ...]", value)):
            yield from missing_secrets(part, f"{place}[{number}]")
