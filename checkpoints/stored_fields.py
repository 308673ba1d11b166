"""Checks that a stored checkpoint has the fields and types that LangGraph relies on."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec
from langgraph.checkpoint.base import CheckpointTuple
from msgspec import Struct

Version: TypeAlias = str | int | float


class _Checkpoint(Struct, frozen=True):
    v: int
    id: str
    ts: str
    channel_values: dict[str, str | None]
    """Each value is a text of `ragflow_lg.checkpoints.codec`."""
    channel_versions: dict[str, Version]
    versions_seen: dict[str, dict[str, Version]]
    updated_channels: list[str] | None = None


class _Metadata(Struct, frozen=True):
    source: str
    step: int
    parents: dict[str, str] = {}
    run_id: str | None = None


def is_key(stored: tuple[Any, ...]) -> bool:
    """Return whether a stored key consists of texts."""
    return all(isinstance(part, str) for part in stored)


def check_fields(packed: CheckpointTuple) -> dict[str, str | None]:
    """Return the texts of a checkpoint's channels.

    Raises:
        ValueError: if a field is missing or has another type.
    """
    checkpoint = msgspec.convert(packed.checkpoint, _Checkpoint)
    msgspec.convert(packed.metadata, _Metadata)
    msgspec.convert(packed.pending_writes or [], list[tuple[str, str, str | None]])
    config: dict[str, Any] = packed.config.get("configurable", {})
    if config.get("checkpoint_id") != checkpoint.id:
        raise ValueError("its id has been changed")
    return checkpoint.channel_values
