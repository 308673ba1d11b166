"""The lines of a file with exported sessions: JSON objects, one a line. Reading them gives data only.

The first line is the header. Each session is a line; what a server has of it may follow: rows of its database, and
files.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, BinaryIO, Literal, TypeAlias

import msgspec
from msgspec import Struct

from ragflow_lg.base.errors import CheckpointError, DamagedSessionError, SessionFileError
from ragflow_lg.checkpoints.steps.thread_tables import DAMAGE
from ragflow_lg.services.sessions import RunRecord, Trace

FORMAT = 2
"""The format of the files. Another one is refused."""
MAX_LINE_BYTES = 600 * 1024 * 1024
"""How large a session can be."""


class _Line(Struct, frozen=True, forbid_unknown_fields=True, tag_field="line"):
    pass


class HeaderLine(_Line, frozen=True, tag="header"):
    """The beginning of a file."""

    format: int
    kind: Literal["ragflow-lg sessions"] = "ragflow-lg sessions"


class StoredState(Struct, frozen=True, forbid_unknown_fields=True):
    """A checkpoint. Its text is a `SessionState` as `ragflow_lg.checkpoints.steps.stored_texts` writes values."""

    namespace: str
    parent: str
    text: str


class StoredRun(Struct, frozen=True, forbid_unknown_fields=True):
    """The record of a run, its agent trace and the log of its nodes."""

    run: RunRecord
    trace: Trace | None = None
    nodes: Trace | None = None


class SessionLine(_Line, frozen=True, tag="session"):
    """A session, by its id."""

    session: str
    parts: dict[str, str]
    """Long texts that the checkpoints use, under their hashes."""
    checkpoints: list[StoredState]
    """Oldest first."""
    steps: dict[str, Any]
    """The results of steps inside nodes."""
    runs: list[StoredRun]
    """Oldest first."""


class ServerLine(_Line, frozen=True, tag="server"):
    """What the database of a server has of the session before it: rows by table."""

    session: str
    rows: dict[str, list[dict[str, Any]]]


class FileLine(_Line, frozen=True, tag="file"):
    """A file that a session names: its row, and its content in Base64."""

    session: str
    row: dict[str, Any]
    content: str


Line: TypeAlias = SessionLine | ServerLine | FileLine
"""A line after the header."""

_WRONG_DATA = (msgspec.MsgspecError, *DAMAGE)
_SERVER = b'{"line":"server"'
_PART_BYTES = 1024**2
"""How much of a line is read at a time. Inside a line, ``_SERVER`` cannot occur: JSON has no bare quotes in a text."""
_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(HeaderLine | Line)


def encode_line(line: HeaderLine | Line) -> bytes:
    """Return a line with its line break.

    Raises:
        DamagedSessionError: if it is too large, or contains a value that JSON cannot represent.
    """
    try:
        encoded = _ENCODER.encode(line) + b"\n"
        if len(encoded) > MAX_LINE_BYTES:
            raise ValueError(f"it would have more than {MAX_LINE_BYTES:,} bytes")
        return encoded
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise DamagedSessionError(f"What is stored cannot be exported ({error}).") from None


def line_error(number: int, reason: object) -> SessionFileError:
    """Return the error for a line that cannot be imported."""
    return SessionFileError(f"Line {number} cannot be imported: {str(reason).rstrip('.')}.")


@contextmanager
def at_line(number: int) -> Generator[None]:
    """Let errors about data name the line."""
    try:
        yield
    except (DamagedSessionError, *_WRONG_DATA) as error:
        raise line_error(number, error) from error
    except CheckpointError as error:
        if type(error) is CheckpointError and error.__cause__ is None:  # a value that no store can have
            raise line_error(number, error) from error
        raise


def read_lines(file: BinaryIO) -> Iterator[tuple[int, Line]]:
    """Yield the lines of a file after its header, with their numbers. Only one is in memory at a time.

    Raises:
        SessionFileError: if a line is not one of an exported session, or the header has another format.
    """
    number = 0
    while text := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(text) > MAX_LINE_BYTES:
            raise line_error(number, f"it is longer than {MAX_LINE_BYTES:,} bytes")
        if number == 1:
            _check_header(text)
            continue
        with at_line(number):
            line = _DECODER.decode(text)
        if isinstance(line, HeaderLine):
            raise line_error(number, "it is a second header")
        yield number, line
    if not number:
        raise line_error(1, "the file is empty")


def has_server_lines(file: BinaryIO) -> bool:
    """Return whether a file has rows of a server. It is at its beginning again afterwards."""
    try:
        return any(part.startswith(_SERVER) for part in iter(partial(file.readline, _PART_BYTES), b""))
    finally:
        file.seek(0)


def _check_header(text: bytes) -> None:
    try:
        header = _DECODER.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        header = None
    if not isinstance(header, HeaderLine):
        raise line_error(1, "the file was not written by `ragflow-lg sessions export`")
    if header.format != FORMAT:
        raise line_error(1, f"its format {header.format} is not known here; use the version that exported it")
