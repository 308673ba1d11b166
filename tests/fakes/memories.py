"""Memories with given entries: those of a conformance case, or some of a test. They record what is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragflow_lg.base.errors import ServiceError
from ragflow_lg.services.memories import Exchange, MemoryResult, MemorySearch, Remembered


@dataclass
class FakeMemories:
    """Memories by id, whose searches return their entries in order. With ``error`` every call fails."""

    entries: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    error: str = ""
    searches: list[MemorySearch] = field(default_factory=list[MemorySearch])
    exchanges: list[tuple[list[str], Exchange]] = field(default_factory=list[tuple[list[str], Exchange]])
    realms: list[str] = field(default_factory=list[str])
    """The realms of the users for whose runs they were opened."""

    @classmethod
    def of_case(cls, kb: Mapping[str, Any]) -> FakeMemories:
        """Return the memories of a conformance case."""
        return cls({m["id"]: [row["content"] for row in m.get("messages", ())] for m in kb.get("memories", ())})

    def of_tenant(self, tenant: str) -> FakeMemories:
        return self

    def for_agent(self, agent: str, realm: str = "") -> FakeMemories:
        self.realms.append(realm)
        return self

    async def remember(self, memories: Sequence[str], exchange: Exchange) -> Sequence[str]:
        if self.error:
            raise ServiceError(self.error)
        self.exchanges.append((list(memories), exchange))
        return [memory for memory in memories if memory not in self.entries]

    async def search(self, search: MemorySearch) -> MemoryResult:
        if self.error:
            raise ServiceError(self.error)
        known = [memory for memory in search.memories if memory in self.entries]
        if known:
            self.searches.append(search)
        found = [
            Remembered(str(number), memory, search.user, "raw", content)
            for memory in known
            for number, content in enumerate(self.entries[memory])
        ]
        return MemoryResult(tuple(found[: search.top_n]), bool(known))
