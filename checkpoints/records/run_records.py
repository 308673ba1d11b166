"""Helpers for stores of run records and agent traces."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import msgspec
import orjson
from msgspec.structs import asdict, replace

from ragflow_lg.base.errors import DamagedSessionError
from ragflow_lg.base.ids import session_of_thread, thread_of_session
from ragflow_lg.base.values import join_surrogates, to_json
from ragflow_lg.services.sessions import RunRecord, Trace

MAX_TRACES = 100
"""Number of runs per session for which traces are stored; older traces are deleted."""

MAX_TIME_MS = 253_402_214_400_000
"""The last day that dates can represent."""


def hex_session(session: str) -> str:
    """Return the 32 hexadecimal digits that identify a session in the store."""
    return session_of_thread(thread_of_session(session))


def normalize_record(record: RunRecord) -> RunRecord:
    """Return a record as it is stored: with a hexadecimal session and no lone surrogates, which no store accepts."""
    names = [name for name, value in asdict(record).items() if isinstance(value, str) and not value.isascii()]
    texts: Any = {name: to_json(getattr(record, name)) for name in names}
    return replace(record, **{**texts, "session": hex_session(record.session)})


def read_record(stored: Mapping[str, Any]) -> RunRecord:
    """Return a stored record. A number may stand for a boolean.

    Raises:
        DamagedSessionError: if a field has another type, or a time is impossible.
    """
    fields = {**stored, "is_cancel_requested": bool(stored["is_cancel_requested"])}
    try:
        record = msgspec.convert(fields, RunRecord)
    except msgspec.ValidationError as error:
        raise DamagedSessionError(f"The record of a run is damaged in the session store ({error}).") from None
    if not all(0 <= time_ms <= MAX_TIME_MS for time_ms in (record.started_ms, record.updated_ms, record.ended_ms)):
        raise DamagedSessionError("The record of a run is damaged in the session store (a time in it is impossible).")
    return record


def write_trace(trace: Trace) -> str:
    """Return a trace as JSON, with surrogates joined."""
    try:
        return orjson.dumps(trace).decode()
    except TypeError:  # a lone surrogate or a long number
        return join_surrogates(json.dumps(trace, ensure_ascii=False))


def parse_trace(text: str | bytes | None) -> Trace | None:
    """Parse a trace. Return None if the text is missing or is not a trace."""
    try:
        value: Any = json.loads(text) if text is not None else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, list):
        return None
    return [block for block in cast("list[Any]", value) if _is_block(block)]


def _is_block(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(cast("dict[str, Any]", value).get("trace"), list)
