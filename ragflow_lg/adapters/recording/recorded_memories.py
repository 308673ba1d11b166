"""Searches in memories in a recording. What is written to memories is not recorded, and a replay writes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import asdict

from ragflow_lg.adapters.recording.cassette import MemoryLine, RememberedRecord
from ragflow_lg.adapters.recording.exchanges import Exchange
from ragflow_lg.adapters.recording.tape import Tape
from ragflow_lg.base.errors import ServiceError, SettingsError
from ragflow_lg.dsl.redaction import Redactor
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
