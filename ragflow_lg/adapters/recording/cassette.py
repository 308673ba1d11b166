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
from typing import IO, Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ragflow_lg.base.errors import CassetteError, ServiceError, SettingsError
from ragflow_lg.dsl.redaction import Redactor
from ragflow_lg.services.memories import MemoryType

VERSION = 1
MAX_LINE_CHARS = 256 * 1024 * 1024
MAX_LINES = 1_000_000
MAX_BYTES = 1024 * 1024 * 1024
"""Size limit of the whole file."""

MAX_NUMBER = 10**9
"""Limit on tokens, calls, requests and seconds. Larger values from a service are recorded as this limit."""

_Count: TypeAlias = Annotated[int, Field(ge=0, le=MAX_NUMBER)]
_Number: TypeAlias = Annotated[float, Field(ge=0, le=MAX_NUMBER)]
_Status: TypeAlias = Annotated[int, Field(ge=100, le=999)]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class _Head(_Record):
    cassette: int


class ToolsLine(_Record):
    """Addresses of the tools' services, the services that have a key, and Crawler's rules."""

    kind: Literal["tools"] = "tools"
    endpoints: dict[str, str] = Field(default_factory=dict[str, str])
    keys: list[str] = Field(default_factory=list[str])
    obeys_robots: bool = True
    user_agent: str = Field(default="ragflow-lg", max_length=200)


class DateLine(_Record):
    """The local time of a turn."""

    kind: Literal["date"] = "date"
    value: str = Field(max_length=100)


class SeedLine(_Record):
    """The seed of a turn."""

    kind: Literal["seed"] = "seed"
    value: int = Field(ge=-(2**63), lt=2**64)


class ModelLine(_Record):
    """Properties of a model, or the text of the SettingsError if it was not available."""

    kind: Literal["model"] = "model"
    llm_id: str
    context_tokens: _Count = 0
    has_vision: bool = False
    has_tools: bool = False
    has_schemas: bool = False
    error: str = ""


class ServerLine(_Record):
    """Permission to call an MCP server's tool.

    ``error`` is the reason if the tool is not permitted. Without a tool, the line records that there is no such server.
    """

    kind: Literal["server"] = "server"
    server: str
    tool: str | None = None
    error: str = ""


def bounded_number(number: float) -> float:
    """Return a number within the limits of a recording."""
    return min(number, MAX_NUMBER) if number > 0 else 0


class FailureRecord(_Record):
    """A `ServiceError` or `SettingsError`."""

    text: str
    is_retryable: bool = False
    retry_after_s: _Number = 0.0
    is_setting: bool = False
    """Whether to replay it as a `SettingsError`."""

    @classmethod
    def of(cls, error: ServiceError | SettingsError, redactor: Redactor, *, is_setting: bool = False) -> FailureRecord:
        """Return the record of an error, with secrets removed."""
        text = redactor.text(str(error))
        if isinstance(error, SettingsError):
            return cls(text=text, is_setting=is_setting)
        return cls(text=text, is_retryable=error.is_retryable, retry_after_s=bounded_number(error.retry_after_s))


class PieceRecord(_Record):
    """A piece of an answer that contains more than text."""

    text: str = ""
    is_thinking: bool = False
    calls: list[tuple[str, str, str]] = Field(default_factory=list[tuple[str, str, str]])
    """Id, name and arguments of each call."""
    usage: tuple[_Count, _Count, _Count, _Number] | None = None
    end: Literal["", "stop", "length", "content_filter"] = ""
    """Why the answer ended."""


class _Exchange(_Record):
    order: _Count
    """Number of the request in the recording, from 1, in the order in which requests were made."""
    node: str
    position: str = ""
    request: dict[str, Any]
    error: FailureRecord | None = None
    is_stopped: bool = False
    """Whether the caller stopped waiting before the exchange ended."""

    def raise_failure(self) -> None:
        """Raise the error of the recorded request, if it failed.

        Raises:
            ServiceError: if it failed, or the caller stopped waiting for it.
            SettingsError: if it failed because of a setting.
        """
        failure = self.error
        if failure is not None and failure.is_setting:
            raise SettingsError(failure.text)
        if failure is not None:
            raise ServiceError(failure.text, is_retryable=failure.is_retryable, retry_after_s=failure.retry_after_s)
        if self.is_stopped:
            raise ServiceError("The recording ends here: the run was stopped or timed out before the answer arrived.")


class ChatLine(_Exchange):
    """A model call."""

    kind: Literal["chat"] = "chat"
    pieces: list[str | PieceRecord] = Field(default_factory=list[str | PieceRecord])


class ResponseRecord(_Record):
    """An HTTP response."""

    status: _Status
    headers: dict[str, str] = Field(default_factory=dict[str, str])
    text: str = ""
    url: str = ""


class HttpLine(_Exchange):
    """An HTTP request."""

    kind: Literal["http"] = "http"
    response: ResponseRecord | None = None


class ServerAnswerRecord(_Record):
    """A `ragflow_lg.services.tool_policies.ServerAnswer`."""

    texts: list[str] = Field(default_factory=list[str])
    others: list[str] = Field(default_factory=list[str])
    structured: Any = None
    is_error: bool = False


class CallLine(_Exchange):
    """A call to an MCP server's tool."""

    kind: Literal["call"] = "call"
    answer: ServerAnswerRecord | None = None
    timeout_s: _Number | None = None
    """The limit that the call exceeded, or None if it did not time out."""

    def raise_failure(self) -> None:
        """Raise the error of the recorded call, a TimeoutError if it timed out."""
        if self.timeout_s is not None:
            raise TimeoutError(self.timeout_s)
        super().raise_failure()


class DatasetEntry(_Record):
    """A `ragflow_lg.services.knowledge.Dataset`."""

    id: str
    name: str
    embedding_model: str = ""
    tenant: str = ""


class DatasetsLine(_Exchange):
    """A dataset lookup by name or id: the dataset for each, or None for an unknown one."""

    kind: Literal["datasets"] = "datasets"
    datasets: list[DatasetEntry | None] | None = None


class SearchRecord(_Record):
    """A `ragflow_lg.services.knowledge.SearchResult`."""

    chunks: list[Any] = Field(default_factory=list[Any])
    documents: list[tuple[Any, Any, Any]] = Field(default_factory=list[tuple[Any, Any, Any]])
    """Name, id and number of chunks for each document."""
    total: int = 0


class SearchLine(_Exchange):
    """A dataset search."""

    kind: Literal["search"] = "search"
    found: SearchRecord | None = None


class MetadataLine(_Exchange):
    """The metadata of all documents in some datasets: key -> value -> document ids."""

    kind: Literal["metadata"] = "metadata"
    metadata: dict[str, dict[str, list[str]]] | None = None


class StatementRecord(_Record):
    """A `ragflow_lg.services.databases.StatementResult`."""

    sql: str
    columns: list[str] = Field(default_factory=list[str])
    rows: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])
    error: str = ""
    changed: int | None = None
    is_refused: bool = False
    has_more: bool = False


class QueryLine(_Exchange):
    """A query of a database."""

    kind: Literal["query"] = "query"
    results: list[StatementRecord] | None = None


class MailLine(_Exchange):
    """An e-mail, with the recipients that the server refused."""

    kind: Literal["mail"] = "mail"
    refused: dict[str, str] | None = None


class RememberedRecord(_Record):
    """A `ragflow_lg.services.memories.Remembered`."""

    key: str
    memory: str
    user: str
    type: MemoryType
    content: str
    agent: str = ""
    valid_at: str = ""
    invalid_at: str = ""
    source: str = ""
    similarity: _Number = 0.0


class MemoryLine(_Exchange):
    """A search in memories."""

    kind: Literal["memory"] = "memory"
    is_known: bool = False
    entries: list[RememberedRecord] | None = None


ExchangeLine: TypeAlias = (
    ChatLine | HttpLine | CallLine | DatasetsLine | SearchLine | MetadataLine | MemoryLine | QueryLine | MailLine
)
Line: TypeAlias = ExchangeLine | ModelLine | ServerLine | DateLine | SeedLine | ToolsLine

_LINE: TypeAdapter[Line] = TypeAdapter(Annotated[Line, Field(discriminator="kind")])


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
        self._write({"kind": line.kind, **line.model_dump(mode="json", exclude_defaults=True)})

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
    if not head.endswith(b"\n") or not _is_head(head):
        raise CassetteError(f"{str(path)!r} is not a recording of ragflow-lg (line 1 should be its header).")
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
        return _LINE.validate_python(json.loads(data))
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False, include_context=False)
        deepest = max(errors, key=lambda problem: len(problem["loc"]))  # the most specific alternative of a union
        path_in_line = ".".join(str(part) for part in deepest["loc"][1:])
        problem = f"{path_in_line}: {deepest['msg']}" if path_in_line else deepest["msg"]
    except (ValueError, RecursionError) as error:
        problem = str(error)
    raise CassetteError(
        f"The recording {str(path)!r} is damaged on line {number}: {problem}. Remove the line, or record again."
    )


def _is_cassette(path: Path) -> bool:
    """Return whether a file may be overwritten because it is a recording or empty."""
    with path.open("rb") as file:
        head = file.readline(1000)
    return not head or _is_head(head)


def _is_head(data: bytes) -> bool:
    try:
        head = _Head.model_validate_json(data)
    except ValidationError:
        return False
    if head.cassette != VERSION:
        raise CassetteError(f"The recording was made by another version (cassette {head.cassette}); record again.")
    return True
