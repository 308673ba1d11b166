"""Section for what canvases remember of users."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ragflow_lg.adapters.memories.memory_settings import MAX_ENTRIES, MemorySettings
from ragflow_lg.server.settings.sections import EmbeddingModel, Section
from ragflow_lg.services.memories import MEMORY_TYPES, MemoryType


class MemorySection(Section):
    """``[memories."ID"]``: what canvases remember about each user, by the ``memory_ids`` of Message and Retrieval.

    Memories are kept at ``checkpoints``. Each tenant and each user has its own part of a memory.
    """

    name: str = ""
    embedding_model: EmbeddingModel = ""
    """The model of new datasets if it is blank."""
    llm_id: str = ""
    """The model that extracts what to remember; the default model if it is blank."""
    types: Annotated[tuple[MemoryType, ...], Field(min_length=1)] = MEMORY_TYPES
    """What is kept: ``raw`` exchanges, and what a model extracts from them: ``semantic`` facts, ``episodic`` events and
    ``procedural`` ways of doing something. With ``["raw"]``, no model is asked."""
    max_entries: Annotated[int, Field(gt=0, le=MAX_ENTRIES)] = 1_000
    """Maximum number of entries for each user. The oldest are forgotten."""
    max_age_days: Annotated[float, Field(ge=0, le=36_500)] = 0.0
    """When entries are forgotten; 0 for never."""

    def settings(self, id_: str) -> MemorySettings:
        """Return the settings of the memory."""
        return MemorySettings(id_, **self.model_dump())
