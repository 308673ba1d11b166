"""Run records and traces, encrypted in the store.

Of a record only the reason of a failure is encrypted, which can quote what a user or a model has written. Sessions are
found and listed by all other fields.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from msgspec.structs import replace

from ragflow_lg.base.errors import SessionKeyError
from ragflow_lg.base.values import join_surrogates
from ragflow_lg.checkpoints.key_ring import KeyRing, run_domain
from ragflow_lg.checkpoints.records.run_records import hex_session, parse_trace, write_trace
from ragflow_lg.services.sessions import RunRecord, Runs, Trace, Traces

_ENCRYPTED = "encrypted"


class EncryptedRecords:
    """The run records of a backend, with encrypted reasons."""

    def __init__(self, inner: Runs, keys: KeyRing) -> None:
        self.inner = inner
        self._keys = keys

    async def put(self, record: RunRecord) -> None:
        """Store a record."""
        if record.reason:
            reason = join_surrogates(record.reason)
            reason = self._keys.encrypt_text(run_domain(record.run_id), ["reason", hex_session(record.session)], reason)
            record = replace(record, reason=reason)
        await self.inner.put(record)

    async def get(self, run_id: str) -> RunRecord | None:
        """Return a record."""
        record = await self.inner.get(run_id)
        return record and self._decrypt(record)

    async def of_session(self, session: str) -> AsyncIterator[RunRecord]:
        """Yield a session's records, newest first."""
        async for record in self.inner.of_session(session):
            yield self._decrypt(record)

    async def sessions(self) -> AsyncIterator[RunRecord]:
        """Yield the newest record of every session, newest first."""
        async for record in self.inner.sessions():
            yield self._decrypt(record)

    async def delete(self, session: str, run_ids: Sequence[str]) -> None:
        """Delete some of a session's records, with their traces."""
        await self.inner.delete(session, run_ids)

    async def delete_session(self, session: str) -> None:
        """Delete all of a session's records."""
        await self.inner.delete_session(session)

    def _decrypt(self, record: RunRecord) -> RunRecord:
        """Return a record with its reason, or with the reason why that cannot be read: listings must go on."""
        try:
            reason = self._keys.decrypt_text(run_domain(record.run_id), ["reason", record.session], record.reason)
        except SessionKeyError as error:
            reason = f"({error})"
        return replace(record, reason=reason)


class EncryptedTraces:
    """The traces of a backend, encrypted. To RAGFlow, which reads them in Redis, they are empty.

    Reading raises SessionKeyError for a trace that cannot be decrypted.
    """

    def __init__(self, inner: Traces, keys: KeyRing, kind: str) -> None:
        """``kind`` distinguishes several traces of one run."""
        self.inner = inner
        self._keys = keys
        self._place = [kind]

    async def put(self, record: RunRecord, trace: Trace) -> None:
        """Store a run's trace."""
        text = self._keys.encrypt_text(run_domain(record.run_id), self._place, write_trace(trace))
        await self.inner.put(record, [{"component_id": "", "trace": [], _ENCRYPTED: text}])

    async def get(self, run_id: str) -> Trace | None:
        """Return a run's trace."""
        trace = await self.inner.get(run_id)
        text: Any = trace[0].get(_ENCRYPTED) if trace else None
        if not isinstance(text, str):
            return trace
        return parse_trace(self._keys.decrypt_text(run_domain(run_id), self._place, text))

    async def delete_session(self, session: str) -> None:
        """Delete a session's traces."""
        await self.inner.delete_session(session)
