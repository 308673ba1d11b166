"""Memories: what a canvas keeps about a user beyond the session.

Source: RAGFlow's ``api/db/joint_services/memory_message_service.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias, get_args

from msgspec import Struct

MemoryType: TypeAlias = Literal["raw", "semantic", "episodic", "procedural"]
"""RAGFlow's types: what was said, and what a model extracts from it: facts, events, and ways of doing something."""

MEMORY_TYPES: tuple[MemoryType, ...] = get_args(MemoryType)

MAX_TEXT_CHARS = 20_000
"""Longer questions and answers are cut."""


class Exchange(Struct, frozen=True):
    """A question of a user and the answer that a Message gave."""

    key: str
    """The name of the exchange. One that is stored already is not stored again."""
    user: str
    question: str
    answer: str
    agent: str = ""
    """The id of the agent, which the memories add."""
    session: str = ""
    """The id of the session, which the memories add to what a run says."""


class MemorySearch(Struct, frozen=True):
    """A search in what is remembered about a user."""

    question: str
    memories: tuple[str, ...]
    user: str
    top_n: int = 8
    similarity_threshold: float = 0.2
    keywords_similarity_weight: float = 0.5


class Remembered(Struct, frozen=True):
    """Something that is remembered. Times are in ISO 8601, or ``""``."""

    key: str
    memory: str
    user: str
    type: MemoryType
    content: str
    agent: str = ""
    valid_at: str = ""
    """Since when it is true, or when it happened."""
    invalid_at: str = ""
    """Since when it is no longer true."""
    source: str = ""
    """The key of the exchange from which it was extracted; ``""`` for the exchange itself."""
    similarity: float = 0.0
    session: str = ""
    """The session of the exchange."""
    is_active: bool = True
    """Whether searches find it."""


class MemoryResult(Struct, frozen=True):
    """The result of a search: the most similar entries, newest first."""

    entries: tuple[Remembered, ...] = ()
    is_known: bool = False
    """Whether at least one of the memories exists."""


class Memories(Protocol):
    """The memories of a deployment, as far as a tenant may use them."""

    def of_tenant(self, tenant: str) -> Memories:
        """Return the part of the memories that a tenant has for itself."""
        ...

    def for_agent(self, agent: str, realm: str = "") -> Memories:
        """Return the memories for the runs of an agent.

        Users of another ``realm`` are other users, even if they have the same name: anyone can name a user to an
        embedded page.
        """
        ...

    async def remember(self, memories: Sequence[str], exchange: Exchange) -> Sequence[str]:
        """Store an exchange in memories, and return those that do not exist.

        What the exchange says is extracted in the background.

        Raises:
            ServiceError: if it cannot be stored.
        """
        ...

    async def search(self, search: MemorySearch) -> MemoryResult:
        """Return what is most similar to a question.

        Raises:
            ServiceError: if the store or the embedding model fails.
            SettingsError: if the settings lack the embedding model.
        """
        ...
