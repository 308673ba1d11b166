"""The log of the server: lines of text or JSON that say which request, run, session and tenant they are about.

Texts come from anywhere: control characters are written as escapes, so that a line is one event. Secrets are left out.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import traceback
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

from msgspec import Struct

from ragflow_lg.dsl.redaction import Redactor

if TYPE_CHECKING:
    from ragflow_lg.server.settings import ServerSection

__all__ = ["LogLines", "RequestNotes", "current_notes", "use_notes", "open_logs", "plain"]

MAX_CHARS = 8_000
"""Of one text in a line."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_KEYS = re.compile(r"\b(?:ragflow|beta)-[A-Za-z0-9_-]{12,}|(?i:bearer)\s+[^\s\"',;]{8,}")


class RequestNotes(Struct):
    """What is known of the request that is being answered; its run keeps them when the request is over."""

    request_id: str = ""
    address: str = ""
    tenant: str = ""
    key: str = ""
    """Id of the key, not the key."""
    session: str = ""
    run: str = ""


_NOTES: ContextVar[RequestNotes | None] = ContextVar("request_notes", default=None)


def current_notes() -> RequestNotes:
    """Give the notes of the request at hand; empty ones, which nobody reads, outside of any."""
    return _NOTES.get() or RequestNotes()


@contextmanager
def use_notes(taken: RequestNotes) -> Generator[None]:
    """Let what is logged meanwhile be about a request."""
    token = _NOTES.set(taken)
    try:
        yield
    finally:
        _NOTES.reset(token)


def plain(text: str) -> str:
    r"""Write a text in one line that no terminal takes for a command.

    >>> plain("a\nb\x1b[2J")
    'a\\nb\\x1b[2J'
    """
    return _CONTROL.sub(lambda match: repr(match[0])[1:-1], text[:MAX_CHARS])


class LogLines(logging.Formatter):
    """Writes records as lines."""

    def __init__(self, *, is_json: bool, secrets: Sequence[str] = ()) -> None:
        super().__init__()
        self._is_json = is_json
        self._redactor = Redactor(secrets)

    def format(self, record: logging.LogRecord) -> str:
        """Give the line of a record."""
        told = record.getMessage()
        about = {name: value for name, value in _about().items() if value}
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        trouble = "".join(traceback.format_exception(*record.exc_info)) if record.exc_info else ""
        if self._is_json:
            line: dict[str, Any] = {"time": time, "level": record.levelname.lower(), "logger": record.name}
            line |= {"message": self._clean(told), **about}
            if trouble:
                line["exception"] = self._clean(trouble[-MAX_CHARS:])
            return json.dumps(line, ensure_ascii=True)
        ends = "".join(f" {name}={plain(value)}" for name, value in about.items())
        tail = f" | {plain(self._clean(trouble[-MAX_CHARS:]))}" if trouble else ""
        return f"{time} {record.levelname.lower()} {record.name}: {plain(self._clean(told))}{ends}{tail}"

    def _clean(self, text: str) -> str:
        return _KEYS.sub("***", self._redactor.text(text[:MAX_CHARS]))


def _about() -> dict[str, str]:
    held = current_notes()
    return {
        "request": held.request_id,
        "run": held.run,
        "session": held.session,
        "tenant": held.tenant,
        "address": held.address,
    }


@contextmanager
def open_logs(section: ServerSection, secrets: Sequence[str] = (), stream: TextIO | None = None) -> Generator[None]:
    """Write the log to standard error meanwhile, as the settings say."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(LogLines(is_json=section.log_format == "json", secrets=secrets))
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(section.log_level.upper())
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
