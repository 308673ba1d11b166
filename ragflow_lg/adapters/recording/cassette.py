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
from typing import IO, Any, Literal

import msgspec
from msgspec import Struct

from ragflow_lg.base.errors import CassetteError, ServiceError, SettingsError
from ragflow_lg.dsl.redaction import Redactor

MAX_LINE_CHARS = 256 * 1024 * 1024
MAX_BYTES = 1024 * 1024 * 1024
"""Size limit of the whole file."""

HEADER = {"recording": "ragflow-lg"}


class Failure(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The error of a call. Replays raise it again."""

    kind: Literal["service", "setting", "time"]
    text: str = ""
    is_retryable: bool = False
    retry_after_s: float = 0.0
    limit_s: float = 0.0
    """The limit that a call exceeded."""

    @classmethod
    def of(cls, error: ServiceError | SettingsError | TimeoutError, redactor: Redactor) -> Failure:
        """Return an error without secrets."""
        if isinstance(error, TimeoutError):
            limit: Any = error.args[0] if error.args else 0.0
            return cls("time", limit_s=float(limit) if isinstance(limit, int | float) else 0.0)
        if isinstance(error, SettingsError):
            return cls("setting", redactor.text(str(error)))
        return cls("service", redactor.text(str(error)), error.is_retryable, error.retry_after_s)

    def as_error(self) -> Exception:
        """Return the error."""
        if self.kind == "time":
            return TimeoutError(self.limit_s)
        if self.kind == "setting":
            return SettingsError(self.text)
        return ServiceError(self.text, is_retryable=self.is_retryable, retry_after_s=self.retry_after_s)


class Line(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A call of a service and its result."""

    call: str
    """The service and its method, such as ``http.send``."""
    is_fact: bool = False
    """Whether any call with this request has this answer; without a request, the next one has it."""
    order: int = 0
    """Number of the request, from 1: a line is written when its call has ended."""
    node: str = ""
    position: str = ""
    request: dict[str, Any] = {}
    answer: Any = None
    error: Failure | None = None
    is_stopped: bool = False
    """Whether the caller stopped waiting before the call ended."""

    def raise_failure(self) -> None:
        """Raise the error of the call, if it failed.

        Raises:
            ServiceError: if it failed, or the caller stopped waiting for it.
            SettingsError: if it failed because of a setting.
            TimeoutError: if it timed out.
        """
        if self.error is not None:
            raise self.error.as_error()
        if self.is_stopped:
            raise ServiceError("The recording ends here: the run was stopped or timed out before the answer arrived.")


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
        self._write(HEADER)

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
    if not head.endswith(b"\n") or not _is_header(head):
        raise CassetteError(f"{str(path)!r} is not a recording of ragflow-lg (line 1 should be its header).")
    number, size = 1, 0
    while data := file.readline(MAX_LINE_CHARS):
        number += 1
        size += len(data)
        if size > MAX_BYTES:
            raise CassetteError(f"The recording {str(path)!r} has more than {MAX_BYTES:,} bytes (line {number}).")
        if not data.endswith(b"\n") and len(data) < MAX_LINE_CHARS:
            return  # the process died while it wrote the line
        if data.strip():
            yield number, _parse_line(path, number, data)


def _parse_line(path: Path, number: int, data: bytes) -> Line:
    try:
        return msgspec.convert(json.loads(data), Line)
    except (ValueError, RecursionError) as error:
        raise CassetteError(
            f"The recording {str(path)!r} is damaged on line {number}: {error}. Remove the line, or record again."
        ) from None


def _is_cassette(path: Path) -> bool:
    """Return whether a file may be overwritten because it is a recording or empty."""
    with path.open("rb") as file:
        head = file.readline(1000)
    return not head or _is_header(head)


def _is_header(head: bytes) -> bool:
    try:
        return json.loads(head) == HEADER
    except (ValueError, RecursionError):
        return False
