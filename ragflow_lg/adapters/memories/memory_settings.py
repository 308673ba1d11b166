"""The settings of a memory."""

from __future__ import annotations

from msgspec import Struct

from ragflow_lg.services.memories import MEMORY_TYPES, MemoryType

MAX_ENTRIES = 10_000
"""Maximum number of entries that a memory can keep about one user."""


class MemorySettings(Struct, frozen=True):
    """What the settings say about a memory."""

    id: str
    name: str = ""
    embedding_model: str = ""
    """The id of the embedding model; ``""`` for that of new datasets."""
    llm_id: str = ""
    """The model that extracts; ``""`` for the default model."""
    types: tuple[MemoryType, ...] = MEMORY_TYPES
    """What is kept. With ``raw`` alone, no model is asked."""
    max_entries: int = 1_000
    """Maximum number of entries for each user; the oldest are forgotten."""
    max_total_entries: int = 1_000_000
    """Maximum number of entries for all users of a tenant; those that changed least recently are forgotten."""
    max_age_days: float = 0.0
    """When entries are forgotten; 0 for never."""

    @property
    def extracted_types(self) -> tuple[MemoryType, ...]:
        """The types that a model extracts."""
        return tuple(type_ for type_ in self.types if type_ != "raw")
