"""The recording file: a run's requests to models, HTTP servers, MCP servers and datasets, and the answers.

The first line is the header. Each exchange is one line, written when the exchange has ended. If the process dies, the
file remains readable; only its last line may be incomplete.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any, TypeAlias

import msgspec
from msgspec import Struct

from ragflow_lg.base.errors import CassetteError, ServiceError, SettingsError
from ragflow_lg.dsl.redaction import Redactor

VERSION = 2
MAX_LINE_CHARS = 256 * 1024 * 1024
MAX_LINES = 1_000_000
MAX_BYTES = 1024 * 1024 * 1024
"""Size limit of the whole file."""


class _Record(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="kind"):
    """A line. ``kind`` says which."""


class ToolsLine(_Record, tag="tools", frozen=True):
    """Addresses of the tools' services, the services that have a key, and Crawler's rules."""

    endpoints: dict[str, str] = {}
    keys: list[str] = []
    obeys_robots: bool = True
    user_agent: str = "ragflow-lg"


class DateLine(_Record, tag="date", frozen=True):
    """The local time of a turn."""

    value: str


class SeedLine(_Record, tag="seed", frozen=True):
    """The seed of a turn."""

    value: int


class ModelLine(_Record, tag="model", frozen=True):
    """Properties of a model, or the text of the SettingsError if it was not available."""

    llm_id: str
    context_tokens: int = 0
    has_vision: bool = False
    has_tools: bool = False
    has_schemas: bool = False
    error: str = ""


class ServerLine(_Record, tag="server", frozen=True):
    """Permission to call an MCP server's tool.

    ``error`` is the reason if the tool is not permitted. Without a tool, the line records that there is no such server.
    """

    server: str
    tool: str | None = None
    error: str = ""


class FailureRecord(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A `ServiceError` or `SettingsError`."""

    text: str
    is_retryable: bool = False
    retry_after_s: float = 0.0
    is_setting: bool = False
    """Whether to replay it as a `SettingsError`."""

    @classmethod
    def of(cls, error: ServiceError | SettingsError, redactor: Redactor, *, is_setting: bool = False) -> FailureRecord:
        """Return the record of an error, with secrets removed."""
        text = redactor.text(str(error))
        if isinstance(error, SettingsError):
            return cls(text, is_setting=is_setting)
        return cls(text, is_retryable=error.is_retryable, retry_after_s=error.retry_after_s)


class ExchangeLine(_Record, tag="exchange", frozen=True, kw_only=True):
    """A request to a service and its answer, whose form depends on the service."""

    service: str
    order: int
    """Number of the request in the recording, from 1, in the order in which requests were made."""
    node: str
    position: str = ""
    request: dict[str, Any]
    answer: Any = None
    error: FailureRecord | None = None
    timeout_s: float | None = None
    """The limit that a call exceeded, or None if it did not time out."""
    is_stopped: bool = False
    """Whether the caller stopped waiting before the exchange ended."""

    def raise_failure(self) -> None:
        """Raise the error of the recorded request, if it failed.

        Raises:
            ServiceError: if it failed, or the caller stopped waiting for it.
            SettingsError: if it failed because of a setting.
            TimeoutError: if it timed out.
        """
        if self.timeout_s is not None:
            raise TimeoutError(self.timeout_s)
        failure = self.error
        if failure is not None and failure.is_setting:
            raise SettingsError(failure.text)
        if failure is not None:
            raise ServiceError(failure.text, is_retryable=failure.is_retryable, retry_after_s=failure.retry_after_s)
        if self.is_stopped:
            raise ServiceError("The recording ends here: the run was stopped or timed out before the answer arrived.")


Line: TypeAlias = ExchangeLine | ModelLine | ServerLine | DateLine | SeedLine | ToolsLine


class CassetteWriter:
    """A writer of a recording. Use it as a context manager."""

    def __init__(self, path: Path) -> None:
        """Create the file, or overwrite a recording.

        Raises:
            CassetteError: if the path is another kind of file, or cannot be written.
        """
        self.path = path
        try:
            if path.exists() and not _is_cassette(path):
                raise CassetteError(
                    f"{str(path)!r} is not a recording and will not be overwritten; choose another file."
                )
            # Prompts and answers are in it, so only its owner may read it.
            opened = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
            self._file: IO[str] = os.fdopen(opened, "w", encoding="utf-8", newline="\n")
            if hasattr(os, "fchmod"):  # an existing file may be more open
                os.fchmod(opened, 0o600)
        except (OSError, ValueError) as error:
            raise self._error(error) from None
        self._write({"cassette": VERSION})

    def write(self, line: Line) -> None:
        """Add a line.

        Raises:
            CassetteError: if it cannot be written.
        """
        self._write(msgspec.to_builtins(line))

    def _write(self, value: dict[str, Any]) -> None:
        if self._file.closed:
            return  # a call that ends after its run
        try:
            # One write for the whole line. ASCII can also represent half a surrogate pair.
            self._file.write(json.dumps(value) + "\n")
            self._file.flush()
        except OSError as error:
            raise self._error(error) from None

    def _error(self, error: OSError | ValueError) -> CassetteError:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        return CassetteError(f"The recording {str(self.path)!r} cannot be written: {reason}.")

    def __enter__(self) -> CassetteWriter:
        """Return the writer."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self._file.close()


def read_cassette(path: Path) -> list[tuple[int, Line]]:
    """Return the lines after the header with their line numbers. An incomplete last line is ignored.

    Raises:
        CassetteError: if the file cannot be read, or a line is damaged.
    """
    try:
        with path.open("rb") as file:
            return list(_lines(path, file))
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise CassetteError(f"The recording {str(path)!r} cannot be read: {reason}.") from None


def _lines(path: Path, file: IO[bytes]) -> Iterator[tuple[int, Line]]:
    head = file.readline(MAX_LINE_CHARS)
    version = _read_version(head)
    if not head.endswith(b"\n") or version is None:
        raise CassetteError(f"{str(path)!r} is not a recording of ragflow-lg (line 1 should be its header).")
    if version != VERSION:
        raise CassetteError(f"The recording was made by another version (cassette {version}); record again.")
    number, size = 1, 0
    while data := file.readline(MAX_LINE_CHARS):
        number += 1
        size += len(data)
        if size > MAX_BYTES:
            raise CassetteError(f"The recording {str(path)!r} has more than {MAX_BYTES:,} bytes (line {number}).")
        if number > MAX_LINES:
            raise CassetteError(f"The recording {str(path)!r} has more than {MAX_LINES:,} lines.")
        if not data.endswith(b"\n") and len(data) < MAX_LINE_CHARS:
            return  # the process died while it wrote the line
        if data.strip():
            yield number, _parse_line(path, number, data)


def _parse_line(path: Path, number: int, data: bytes) -> Line:
    try:
        return msgspec.convert(json.loads(data), Line)
    except (ValueError, RecursionError) as error:
        problem = str(error)
    raise CassetteError(
        f"The recording {str(path)!r} is damaged on line {number}: {problem}. Remove the line, or record again."
    )


def _is_cassette(path: Path) -> bool:
    """Return whether a file may be overwritten because it is a recording or empty."""
    with path.open("rb") as file:
        head = file.readline(1000)
    return not head or _read_version(head) is not None


def _read_version(head: bytes) -> Any:
    """Return the version of a recording, or None for another file."""
    try:
        return json.loads(head)["cassette"]
    except (ValueError, RecursionError, LookupError, TypeError):
        return None
