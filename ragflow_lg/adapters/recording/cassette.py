"""The file of a recording: what a run asked of models, HTTP servers, servers of tools and datasets, and the answers.

The first line is the head. Every exchange is a line, which is written when it has ended, so that a file is readable
whenever its process died; only its last line may be incomplete.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from ragflow_lg.base.errors import CassetteError, ServiceError, SettingsError
from ragflow_lg.dsl.redaction import Redactor

__all__ = [
    "MAX_NUMBER",
    "CallLine",
    "CassetteWriter",
    "ChatLine",
    "DatasetEntry",
    "DatasetsLine",
    "DateLine",
    "ExchangeLine",
    "FailureRecord",
    "FoundRecord",
    "HttpLine",
    "Line",
    "MetadataLine",
    "ModelLine",
    "PieceRecord",
    "ResponseRecord",
    "SearchLine",
    "SeedLine",
    "ServerAnswerRecord",
    "ServerLine",
    "ToolsLine",
    "bounded_number",
    "read_cassette",
]

VERSION = 1
MAX_LINE_CHARS = 256 * 1024 * 1024
MAX_LINES = 1_000_000
MAX_BYTES = 1024 * 1024 * 1024
"""Of the whole file."""

MAX_NUMBER = 10**9
"""Of tokens, calls, requests, seconds. Whatever a service says beyond it is recorded as this."""

_Count: TypeAlias = Annotated[int, Field(ge=0, le=MAX_NUMBER)]
_Number: TypeAlias = Annotated[float, Field(ge=0, le=MAX_NUMBER)]
_Status: TypeAlias = Annotated[int, Field(ge=100, le=999)]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class _Head(_Record):
    cassette: int


class ToolsLine(_Record):
    """Addresses of tools' services, and which of them have a key."""

    kind: Literal["tools"] = "tools"
    endpoints: dict[str, str] = Field(default_factory=dict[str, str])
    keys: list[str] = Field(default_factory=list[str])


class DateLine(_Record):
    """The local time that a turn was given."""

    kind: Literal["date"] = "date"
    value: str = Field(max_length=100)


class SeedLine(_Record):
    """The seed of a turn."""

    kind: Literal["seed"] = "seed"
    value: int = Field(ge=-(2**63), lt=2**64)


class ModelLine(_Record):
    """What a model can do; or why there is none, a `ragflow_lg.base.errors.SettingsError`."""

    kind: Literal["model"] = "model"
    llm_id: str
    context_tokens: _Count = 0
    has_vision: bool = False
    has_tools: bool = False
    has_schemas: bool = False
    error: str = ""


class ServerLine(_Record):
    """A tool of a server that may be called, or why not; without a tool: that there is no such server."""

    kind: Literal["server"] = "server"
    server: str
    tool: str | None = None
    error: str = ""


def bounded_number(number: float) -> float:
    """Give a number that a recording may hold."""
    return min(number, MAX_NUMBER) if number > 0 else 0


class FailureRecord(_Record):
    """A `ServiceError`, or a `SettingsError` of a place that holds datasets."""

    text: str
    is_retryable: bool = False
    retry_after_s: _Number = 0.0
    is_setting: bool = False

    @classmethod
    def of(cls, error: ServiceError | SettingsError | None, redactor: Redactor) -> FailureRecord | None:
        """Write an error down."""
        if error is None:
            return None
        text = redactor.text(str(error))
        if isinstance(error, SettingsError):
            return cls(text=text)
        return cls(text=text, is_retryable=error.is_retryable, retry_after_s=bounded_number(error.retry_after_s))


class PieceRecord(_Record):
    """A piece of an answer that is more than a text."""

    text: str = ""
    is_thinking: bool = False
    calls: list[tuple[str, str, str]] = Field(default_factory=list[tuple[str, str, str]])
    """Id, name and arguments each."""
    usage: tuple[_Count, _Count, _Count, _Number] | None = None


class _Exchange(_Record):
    order: _Count
    """Counts the requests of the recording from 1, as they were made."""
    node: str
    position: str = ""
    request: dict[str, Any]
    error: FailureRecord | None = None
    is_stopped: bool = False
    """Whether whoever asked did not wait for the end."""

    def raise_failure(self) -> None:
        """Fail as the recorded request did, if it did.

        Raises:
            ServiceError: if it failed, or nobody waited for its end.
            SettingsError: if datasets could not be searched because of a setting.
        """
        failure = self.error
        if failure is not None and failure.is_setting:
            raise SettingsError(failure.text)
        if failure is not None:
            raise ServiceError(failure.text, is_retryable=failure.is_retryable, retry_after_s=failure.retry_after_s)
        if self.is_stopped:
            raise ServiceError(
                "The recording ends here: the run was stopped, or its time was up, before the answer came."
            )


class ChatLine(_Exchange):
    """A call of a model."""

    kind: Literal["chat"] = "chat"
    pieces: list[str | PieceRecord] = Field(default_factory=list[str | PieceRecord])


class ResponseRecord(_Record):
    """An answer over HTTP."""

    status: _Status
    headers: dict[str, str] = Field(default_factory=dict[str, str])
    text: str = ""
    url: str = ""


class HttpLine(_Exchange):
    """An HTTP request."""

    kind: Literal["http"] = "http"
    response: ResponseRecord | None = None


class ServerAnswerRecord(_Record):
    """A `ragflow_lg.services.services.ServerAnswer`."""

    texts: list[str] = Field(default_factory=list[str])
    others: list[str] = Field(default_factory=list[str])
    structured: Any = None
    is_error: bool = False


class CallLine(_Exchange):
    """A call of a tool of a server."""

    kind: Literal["call"] = "call"
    answer: ServerAnswerRecord | None = None
    timeout_s: _Number | None = None
    """The limit in which no answer came, if that is why there is none."""


class DatasetEntry(_Record):
    """A `ragflow_lg.services.knowledge.Dataset`."""

    id: str
    name: str
    embedding_model: str = ""
    tenant: str = ""


class DatasetsLine(_Exchange):
    """Which datasets some names and ids stand for, in the order in which they were asked for; None: there is none."""

    kind: Literal["datasets"] = "datasets"
    datasets: list[DatasetEntry | None] | None = None


class FoundRecord(_Record):
    """A `ragflow_lg.services.knowledge.SearchResult`."""

    chunks: list[Any] = Field(default_factory=list[Any])
    documents: list[tuple[Any, Any, Any]] = Field(default_factory=list[tuple[Any, Any, Any]])
    """Name, id and number of chunks each."""
    total: int = 0


class SearchLine(_Exchange):
    """A search of datasets."""

    kind: Literal["search"] = "search"
    found: FoundRecord | None = None


class MetadataLine(_Exchange):
    """What is known of the documents of some datasets: key -> value -> document ids."""

    kind: Literal["metadata"] = "metadata"
    metadata: dict[str, dict[str, list[str]]] | None = None


ExchangeLine: TypeAlias = ChatLine | HttpLine | CallLine | DatasetsLine | SearchLine | MetadataLine
Line: TypeAlias = ExchangeLine | ModelLine | ServerLine | DateLine | SeedLine | ToolsLine

_LINE: TypeAdapter[Line] = TypeAdapter(Annotated[Line, Field(discriminator="kind")])


class CassetteWriter:
    """Writes a recording, one line for each thing that has happened. Use it as ``with``."""

    def __init__(self, path: Path) -> None:
        """Begin the file anew.

        Raises:
            CassetteError: if there is another kind of file, or it cannot be written.
        """
        self.path = path
        try:
            if path.exists() and not _is_cassette(path):
                raise CassetteError(f"{str(path)!r} is no recording and is left as it is; name another file to record.")
            self._file: IO[str] = path.open("w", encoding="utf-8", newline="\n")
        except (OSError, ValueError) as error:
            raise self._failed(error) from None
        self._write({"cassette": VERSION})

    def write(self, line: Line) -> None:
        """Add a line.

        Raises:
            CassetteError: if it cannot be written.
        """
        self._write({"kind": line.kind, **line.model_dump(mode="json", exclude_defaults=True)})

    def _write(self, value: dict[str, Any]) -> None:
        if self._file.closed:
            return  # a call that ends behind its run
        try:
            # One write for the whole line; ASCII, so that half a surrogate pair is no trouble.
            self._file.write(json.dumps(value) + "\n")
            self._file.flush()
        except OSError as error:
            raise self._failed(error) from None

    def _failed(self, error: OSError | ValueError) -> CassetteError:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        return CassetteError(f"The recording {str(self.path)!r} cannot be written: {reason}.")

    def __enter__(self) -> CassetteWriter:
        """Give the writer."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self._file.close()


def read_cassette(path: Path) -> list[tuple[int, Line]]:
    """Read a recording: its lines behind the head, with their numbers.

    Raises:
        CassetteError: if it cannot be read, or a line is damaged; a last line that was not written to its end is
            left out.
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
        raise CassetteError(f"{str(path)!r} is no recording of ragflow-lg (line 1 should be its head).")
    number, size = 1, 0
    while data := file.readline(MAX_LINE_CHARS):
        number += 1
        size += len(data)
        if size > MAX_BYTES:
            raise CassetteError(f"The recording {str(path)!r} has more than {MAX_BYTES:,} bytes (line {number}).")
        if number > MAX_LINES:
            raise CassetteError(f"The recording {str(path)!r} has more than {MAX_LINES:,} lines.")
        if not data.endswith(b"\n") and len(data) < MAX_LINE_CHARS:
            return  # its process died while it wrote
        if data.strip():
            yield number, _parsed(path, number, data)


def _parsed(path: Path, number: int, data: bytes) -> Line:
    try:
        return _LINE.validate_python(json.loads(data))
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        first = max(found, key=lambda problem: len(problem["loc"]))  # a piece may be a text, but this one is none
        place = ".".join(str(part) for part in first["loc"][1:])
        problem = f"{place}: {first['msg']}" if place else first["msg"]
    except (ValueError, RecursionError) as error:
        problem = str(error)
    raise CassetteError(
        f"The recording {str(path)!r} is damaged in line {number}: {problem}. Take the line out, or record again."
    )


def _is_cassette(path: Path) -> bool:
    """Tell whether a file may be recorded over: a recording, or nothing."""
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
