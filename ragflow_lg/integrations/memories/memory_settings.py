"""The settings of a memory, and their section."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated

from msgspec import Struct
from pydantic import Field

from ragflow_lg.server.settings.sections import Section
from ragflow_lg.services.memories import MEMORY_TYPES, MemoryType

if TYPE_CHECKING:
    from ragflow_lg.server.settings import Settings

MAX_ENTRIES = 10_000
"""Maximum number of entries that a memory can keep about one user."""


class MemorySettings(Struct, frozen=True, omit_defaults=True):
    """What the settings, or the tenant that has created it, say about a memory."""

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
    description: str = ""
    avatar: str = ""
    permissions: str = "me"
    create_ms: int = 0
    """When a tenant has created it; 0 for a memory of the settings."""
    update_ms: int = 0

    @property
    def extracted_types(self) -> tuple[MemoryType, ...]:
        """The types that a model extracts."""
        return tuple(type_ for type_ in self.types if type_ != "raw")


class MemorySection(Section):
    """``[memories."ID"]``: what canvases remember about each user, by the ``memory_ids`` of Message and Retrieval.

    Memories are kept at ``checkpoints``. Each tenant and each user has its own part of a memory.
    """

    name: str = ""
    embedding_model: str = ""
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


MemorySections = dict[str, MemorySection]


def find_problem(settings: Settings, name: str) -> str:
    """Return what is wrong with the id of a memory, or ``""``."""
    if name in settings.section(MemorySections):
        return ""
    label = name[:200] if name.isprintable() else repr(name[:200])
    section = f"Add [memories.{json.dumps(label, ensure_ascii=False)}] to the settings."
    created = " If it was created over HTTP, only its server knows it." if is_created(name) else ""
    return f"There is no memory {label!r}. {section}{created}"


def is_created(id_: str) -> bool:
    """Return whether an id looks like one that a server has given."""
    return re.fullmatch("[0-9a-f]{32}", id_) is not None
