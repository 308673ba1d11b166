"""The audit log: who made, changed and deleted what, and who was refused. One JSON object a line, without secrets."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from ragflow_lg.base.errors import SettingsError
from ragflow_lg.server.observability.logs import current_notes

__all__ = ["audit", "open_audit"]

LOGGER = "ragflow_lg.audit"
MAX_CHARS = 500

logger = logging.getLogger(LOGGER)


def audit(event: str, **fields: str) -> None:
    """Note an event, ``key.created`` for example, of the request at hand. ``fields`` say what it was about."""
    held = current_notes()
    about = {"tenant": held.tenant, "key": held.key, "address": held.address, "request": held.request_id, **fields}
    told = {"event": event, **{name: value[:MAX_CHARS] for name, value in about.items() if value}}
    logger.info("%s", json.dumps(told, ensure_ascii=True))


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return json.dumps({"time": time, **json.loads(record.getMessage())}, ensure_ascii=True)


@contextmanager
def open_audit(file: Path | None) -> Generator[None]:
    """Add events to a file meanwhile, which only its owner may read; without one to the log, as ``info``.

    Raises:
        SettingsError: if the file cannot be written.
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
    handler.setFormatter(_Lines())
    level, is_passed_on = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = is_passed_on
        stream.close()
