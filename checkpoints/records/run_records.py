"""Run records and agent traces as stores have them, and requests to cancel within one process."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

import msgspec
import orjson
from msgspec.structs import asdict, replace

from ragflow_lg.base.errors import DamagedSessionError, SessionKeyError
from ragflow_lg.base.ids import session_of_thread, thread_of_session
from ragflow_lg.base.tasks import SharedTask
from ragflow_lg.base.values import join_surrogates, to_json
from ragflow_lg.checkpoints.key_ring import run_domain
from ragflow_lg.services.sessions import RunRecord, Trace

if TYPE_CHECKING:
    from ragflow_lg.checkpoints.key_ring import KeyRing


MAX_TRACES = 100
"""Number of runs per session for which traces are stored; older traces are deleted."""

MAX_TIME_MS = 253_402_214_400_000
"""The last day that dates can represent."""

_ENCRYPTED = "encrypted"


def hex_session(session: str) -> str:
    """Return the 32 hexadecimal digits that identify a session in the store."""
    return session_of_thread(thread_of_session(session))


def check_record(stored: Mapping[str, Any]) -> RunRecord:
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


class RecordTexts:
    """How records and traces are written as texts: with ``keys``, what users and models have written is encrypted.

    Of a record, only the reason of a failure is: it can quote them. Sessions are found and listed by all other fields.
    """

    def __init__(self, keys: KeyRing | None = None) -> None:
        self._keys = keys

    def seal(self, record: RunRecord) -> RunRecord:
        """Return a record to store: with a hexadecimal session and no lone surrogates, which no store accepts."""
        names = [name for name, value in asdict(record).items() if isinstance(value, str) and not value.isascii()]
        texts: Any = {name: to_json(getattr(record, name)) for name in names}
        record = replace(record, **{**texts, "session": hex_session(record.session)})
        if self._keys is None or not record.reason:
            return record
        place = ["reason", record.session]
        return replace(record, reason=self._keys.encrypt_text(run_domain(record.run_id), place, record.reason))

    def open(self, record: RunRecord) -> RunRecord:
        """Return a stored record with its reason, or with the reason why that cannot be read: listings must go on."""
        if self._keys is None:
            return record
        try:
            reason = self._keys.decrypt_text(run_domain(record.run_id), ["reason", record.session], record.reason)
        except SessionKeyError as error:
            reason = f"({error})"
        return replace(record, reason=reason)

    def write_trace(self, run_id: str, kind: str, trace: Trace) -> str:
        """Return a trace as JSON, with surrogates joined. To RAGFlow, which reads Redis, an encrypted one is empty."""
        try:
            text = orjson.dumps(trace).decode()
        except TypeError:  # a lone surrogate or a long number
            text = join_surrogates(json.dumps(trace, ensure_ascii=False))
        if self._keys is None:
            return text
        encrypted = self._keys.encrypt_text(run_domain(run_id), [kind], text)
        return orjson.dumps([{"component_id": "", "trace": [], _ENCRYPTED: encrypted}]).decode()

    def read_trace(self, run_id: str, kind: str, stored: str | bytes | None) -> Trace | None:
        """Return a stored trace, or None if it is missing or is not one.

        Raises:
            SessionKeyError: if it cannot be decrypted.
        """
        trace = _parse(stored)
        encrypted = trace[0].get(_ENCRYPTED) if trace else None
        if self._keys is None or not isinstance(encrypted, str):
            return trace
        return _parse(self._keys.decrypt_text(run_domain(run_id), [kind], encrypted))


def _parse(text: str | bytes | None) -> Trace | None:
    try:
        value: Any = json.loads(text) if text is not None else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, list):
        return None
    return [block for block in cast("list[Any]", value) if _is_block(block)]


def _is_block(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(cast("dict[str, Any]", value).get("trace"), list)


class LocalCancels:
    """The blocks of this process that wait for a request to cancel; see `ragflow_lg.services.sessions.Cancels`.

    A flag in the store remains until the session is leased again: the process may die before it has stored the end.
    """

    def __init__(self, listen: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Initialize. ``listen`` looks for the requests of other processes while there are blocks."""
        self._watches: dict[str, list[Callable[[], None]]] = {}
        self._listening = SharedTask(listen)

    def cancel(self, session: str) -> None:
        """Cancel the session's turn at once."""
        for on_cancel in self._watches.pop(hex_session(session), ()):
            on_cancel()

    @asynccontextmanager
    async def watch(self, session: str, on_cancel: Callable[[], None]) -> AsyncGenerator[None]:
        """Call ``on_cancel`` once, on the next request inside the block."""
        session, watch = hex_session(session), lambda: on_cancel()
        self._watches.setdefault(session, []).append(watch)
        self._listening.start()
        try:
            yield
        finally:
            left = [other for other in self._watches.pop(session, ()) if other is not watch]
            if left:
                self._watches[session] = left

    async def aclose(self) -> None:
        """Stop listening."""
        await self._listening.aclose()
