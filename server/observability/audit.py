"""The audit log: who created, changed and deleted what, and who was refused.

One JSON object per line, without secrets.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.base.request_notes import current_notes

LOGGER = "ragflow_lg.audit"
MAX_CHARS = 500

logger = logging.getLogger(LOGGER)


def audit(event: str, **fields: str) -> None:
    """Record an event in the current request, such as ``key.created``. ``fields`` describe what it was about."""
    notes = current_notes()
    about = {"tenant": notes.tenant, "key": notes.key, "address": notes.address, "request": notes.request_id, **fields}
    entry = {"event": event, **{name: value[:MAX_CHARS] for name, value in about.items() if value}}
    logger.info("%s", json.dumps(entry, ensure_ascii=True))


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
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate
        stream.close()
