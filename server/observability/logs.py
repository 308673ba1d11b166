"""The server's log, and the audit log: who created, changed and deleted what, and who was refused.

Control characters in logged texts are escaped, so that every event is one line. Secrets are removed.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import traceback
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.request_notes import current_notes
from ragflow_lg.dsl.redaction import Redactor

if TYPE_CHECKING:
    from ragflow_lg.server.settings.server_section import ServerSection


MAX_CHARS = 8_000
"""Maximum length of each text in a line."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_KEYS = re.compile(
    r"(?<![A-Za-z0-9])(?:ragflow|beta|share)-[A-Za-z0-9_-]{12,}|(?i:bearer)\s+[^\s\"',;]{8,}"
    r"|(?i:(?<=/shared/)\S+|(?<=/shared)%\S+)"  # also links that have been changed on their way
)


def escape_controls(text: str) -> str:
    r"""Escape control characters, so that the text is one line and no terminal interprets it.

    >>> escape_controls("a\nb\x1b[2J")
    'a\\nb\\x1b[2J'
    """
    return _CONTROL.sub(lambda match: repr(match[0])[1:-1], text[:MAX_CHARS])


class LogFormatter(logging.Formatter):
    """Formats records as lines of text or JSON."""

    def __init__(self, *, is_json: bool, secrets: Sequence[str]) -> None:
        super().__init__()
        self._is_json = is_json
        self._redactor = Redactor(secrets)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line for a record."""
        message = record.getMessage()
        context = {name: self._clean(value) for name, value in _context().items() if value}
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        trace = "".join(traceback.format_exception(*record.exc_info)) if record.exc_info else ""
        if self._is_json:
            line: dict[str, Any] = {"time": time, "level": record.levelname.lower(), "logger": record.name}
            line |= {"message": self._clean(message), **context}
            if trace:
                line["exception"] = self._clean(trace[-MAX_CHARS:])
            return json.dumps(line, ensure_ascii=True)
        fields = "".join(f" {name}={escape_controls(value)}" for name, value in context.items())
        tail = f" | {escape_controls(self._clean(trace[-MAX_CHARS:]))}" if trace else ""
        return f"{time} {record.levelname.lower()} {record.name}: {escape_controls(self._clean(message))}{fields}{tail}"

    def _clean(self, text: str) -> str:
        return _KEYS.sub("***", self._redactor.text(text[:MAX_CHARS]))


def _context() -> dict[str, str]:
    notes = current_notes()
    return {
        "request": notes.request_id,
        "run": notes.run,
        "session": notes.session,
        "tenant": notes.tenant,
        "address": notes.address,
    }


@contextmanager
def open_logs(section: ServerSection, secrets: Sequence[str], stream: TextIO | None = None) -> Generator[None]:
    """Write the log to standard error in the way the settings specify.

    At level ``debug``, the clients of models and servers would log whole requests: prompts, variables of canvases and
    documents. That level therefore applies only to this project's own loggers.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(LogFormatter(is_json=section.log_format == "json", secrets=secrets))
    root, own = logging.getLogger(), logging.getLogger("ragflow_lg")
    before = root.level, own.level
    level = logging.getLevelNamesMapping()[section.log_level.upper()]
    root.addHandler(handler)
    root.setLevel(max(level, logging.INFO))
    own.setLevel(level)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(before[0])
        own.setLevel(before[1])


LOGGER = "ragflow_lg.audit"
MAX_FIELD_CHARS = 500

audit_logger = logging.getLogger(LOGGER)


def audit(event: str, **fields: str) -> None:
    """Record an event in the current request, such as ``key.created``. ``fields`` describe what it was about."""
    notes = current_notes()
    about = {"tenant": notes.tenant, "key": notes.key, "address": notes.address, "request": notes.request_id, **fields}
    entry = {
        "event": event,
        **{name: _KEYS.sub("***", value[:MAX_FIELD_CHARS]) for name, value in about.items() if value},
    }
    audit_logger.info("%s", json.dumps(entry, ensure_ascii=True))


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return json.dumps({"time": time, **json.loads(record.getMessage())}, ensure_ascii=True)


@contextmanager
def open_audit(file: Path | None) -> Generator[None]:
    """Append events to a file that only its owner can read. Without a file, they are logged at level ``info``.

    Raises:
        SettingsError: If the file cannot be written.
    """
    if file is None:
        yield
        return
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        stream = os.fdopen(os.open(file, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600), "a", encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"[server] audit: {str(file)!r} cannot be written: {error.strerror}.") from None
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_JsonLines())
    level, propagate = audit_logger.level, audit_logger.propagate
    audit_logger.addHandler(handler)
    audit_logger.setLevel(logging.INFO)
    audit_logger.propagate = False
    try:
        yield
    finally:
        audit_logger.removeHandler(handler)
        audit_logger.setLevel(level)
        audit_logger.propagate = propagate
        stream.close()
