"""Queries of databases, e-mails and searches in memories in a recording: a replay neither queries, sends nor writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import asdict

from ragflow_lg.adapters.recording.cassette import MailLine, MemoryLine, QueryLine, RememberedRecord, StatementRecord
from ragflow_lg.adapters.recording.exchanges import Exchange
from ragflow_lg.adapters.recording.tape import Tape
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.base.values import to_json
from ragflow_lg.dsl.redaction import Redactor
from ragflow_lg.services.databases import Databases, SqlQuery, StatementResult, Target
from ragflow_lg.services.mail import Delivery, Mailer, MailMessage, MailTarget
from ragflow_lg.services.memories import Exchange as MemoryExchange
from ragflow_lg.services.memories import Memories, MemoryResult, MemorySearch, Remembered
from ragflow_lg.services.services import Caller


def _encode(result: MemoryResult, redactor: Redactor) -> dict[str, Any]:
    records = [
        RememberedRecord.model_validate({**asdict(entry), "content": redactor.text(entry.content)})
        for entry in result.entries
    ]
    return {"is_known": result.is_known, "entries": records}


def _decode(line: MemoryLine) -> MemoryResult | None:
    if line.entries is None:
        return None
    return MemoryResult(tuple(Remembered(**entry.model_dump()) for entry in line.entries), line.is_known)


MEMORY: Exchange[MemoryResult, MemoryLine] = Exchange(
    MemoryLine,
    lambda request: "memory search",
    _encode,
    _decode,
    (ServiceError, SettingsError),
    replays_settings_errors=True,
)


class RecordedMemories:
    """`ragflow_lg.services.memories.Memories` for a caller."""

    def __init__(self, tape: Tape, caller: Caller, memories: Memories) -> None:
        self._tape = tape
        self._caller = caller
        self._memories = memories

    def for_agent(self, agent: str, *, is_page: bool) -> RecordedMemories:
        """Return the memories for the runs of an agent."""
        return RecordedMemories(self._tape, self._caller, self._memories.for_agent(agent, is_page=is_page))

    async def remember(self, memories: Sequence[str], exchange: MemoryExchange) -> Sequence[str]:
        """Store an exchange; in a replay, nothing."""
        return await self._memories.remember(memories, exchange)

    async def search(self, search: MemorySearch) -> MemoryResult:
        """Search, or return the recorded result."""
        redactor = self._tape.redactor
        request: dict[str, Any] = {**asdict(search), "question": redactor.text(search.question)}
        request = {**request, "memories": list(search.memories), "user": redactor.text(search.user)}
        return await self._tape.exchange(MEMORY, self._caller, request, lambda: self._memories.search(search))


_FAILURES = (ServiceError, SettingsError)


def _encode_results(results: Sequence[StatementResult], redactor: Redactor) -> dict[str, Any]:
    records = [
        StatementRecord(
            sql=redactor.text(result.sql),
            columns=list(result.columns),
            rows=[dict(redactor.value(row)) for row in result.rows],  # pyright: ignore[reportArgumentType, reportCallIssue]
            error=redactor.text(result.error),
            changed=result.changed,
            is_refused=result.is_refused,
        )
        for result in results
    ]
    return {"results": records}


def _decode_results(line: QueryLine) -> Sequence[StatementResult] | None:
    if line.results is None:
        return None
    return [StatementResult(r.sql, tuple(r.columns), r.rows, r.error, r.changed, r.is_refused) for r in line.results]


def _encode_delivery(delivery: Delivery, redactor: Redactor) -> dict[str, Any]:
    return {"refused": {address: redactor.text(reason) for address, reason in delivery.refused.items()}}


def _decode_delivery(line: MailLine) -> Delivery | None:
    return None if line.refused is None else Delivery(line.refused)


QUERY: Exchange[Sequence[StatementResult], QueryLine] = Exchange(
    QueryLine,
    lambda request: f"query of {request.get('database', '')}",
    _encode_results,
    _decode_results,
    _FAILURES,
    replays_settings_errors=True,
)
MAIL: Exchange[Delivery, MailLine] = Exchange(
    MailLine,
    lambda request: f"e-mail to {', '.join(request.get('to', ()))}",
    _encode_delivery,
    _decode_delivery,
    _FAILURES,
    replays_settings_errors=True,
)


class RecordedDatabases:
    """`ragflow_lg.services.databases.Databases` for a caller."""

    def __init__(self, tape: Tape, caller: Caller, databases: Databases) -> None:
        self._tape = tape
        self._caller = caller
        self._databases = databases

    def allows_writes(self, target: Target) -> bool:
        """Return whether statements may change the database; a replay never changes one."""
        return self._databases.allows_writes(target)

    async def run(self, target: Target, query: SqlQuery) -> Sequence[StatementResult]:
        """Run the statements, or return the recorded results."""
        password = "" if isinstance(target, str) else target.password
        request = {"database": _name(target), "sql": query.sql, "values": query.values, "max_rows": query.max_rows}
        written = _written(request, password, self._tape.redactor)
        return await self._tape.exchange(QUERY, self._caller, written, lambda: self._databases.run(target, query))


class RecordedMailer:
    """`ragflow_lg.services.mail.Mailer` for a caller."""

    def __init__(self, tape: Tape, caller: Caller, mailer: Mailer) -> None:
        self._tape = tape
        self._caller = caller
        self._mailer = mailer

    async def send(self, target: MailTarget, message: MailMessage) -> Delivery:
        """Send a message, or return the recorded answer."""
        password = "" if isinstance(target, str) else target.password
        fields = {name: getattr(message, name) for name in message.__struct_fields__}
        written = _written({"server": _name(target), **fields}, password, self._tape.redactor)
        return await self._tape.exchange(MAIL, self._caller, written, lambda: self._mailer.send(target, message))


def _name(target: Any) -> str:
    return target if isinstance(target, str) else repr(target)


def _written(request: Mapping[str, Any], password: str, redactor: Redactor) -> dict[str, Any]:
    """Return a request as JSON without secrets."""
    redactor.learn(password)
    cleaned: Any = redactor.value(
        to_json({name: value for name, value in request.items() if value not in ("", (), {})})
    )
    return cleaned
