"""The JSON documents of LangGraph's Redis saver, written and read as data: its own reader turns some maps into objects.

Its writer makes a client's JSON commands, a pipeline and several calls to the server of each document.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import orjson
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.redis.util import (
    from_storage_safe_id,
    from_storage_safe_str,
    to_storage_safe_id,
    to_storage_safe_str,
)
from msgspec import Struct

from ragflow_lg.checkpoints.steps.plain_serializer import PlainSerializer
from ragflow_lg.checkpoints.steps.saver_operations import CheckpointKey, key_config

_SERIALIZER = PlainSerializer(is_json=True)


class _Document(Struct, frozen=True):
    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str

    def key(self) -> CheckpointKey:
        """Return the key of the checkpoint to which the document belongs."""
        thread, checkpoint = from_storage_safe_id(self.thread_id), from_storage_safe_id(self.checkpoint_id)
        return CheckpointKey(thread, from_storage_safe_str(self.checkpoint_ns), checkpoint)


class CheckpointDocument(_Document, frozen=True):
    """A checkpoint. Its metadata is JSON text."""

    checkpoint: dict[str, Any]
    metadata: str
    parent_checkpoint_id: str | None = None


class WriteDocument(_Document, frozen=True):
    """A pending write. ``blob`` is the serialized value in Base64."""

    task_id: str
    channel: str
    type: str
    blob: str


def dump_checkpoint(
    key: CheckpointKey, parent: str, checkpoint: Mapping[str, Any], metadata: Mapping[str, Any]
) -> bytes:
    """Return the text of a checkpoint's document. ``parent`` is the id of the checkpoint before it, or ``""``.

    It has no ``checkpoint_ts``, by which LangGraph's listing sorts: checkpoints are sorted by their ids.
    """
    run = metadata.get("run_id")
    versions = {channel: str(version) for channel, version in checkpoint["channel_versions"].items()}
    document: dict[str, Any] = {
        **_names(key),
        "run_id": to_storage_safe_id(run) if run else "",
        "parent_checkpoint_id": parent,
        "checkpoint": {"type": "json", **checkpoint, "channel_versions": versions, "pending_sends": []},
        "metadata": _dump(metadata).decode(),
        # LangGraph's listing then looks for pending writes; otherwise, each write would also change the checkpoint.
        "has_writes": True,
        **{name: metadata[name] for name in ("source", "step") if name in metadata},
    }
    return _dump(document)


def dump_write(key: CheckpointKey, task: tuple[str, str], index: int, channel: str, value: Any) -> bytes:
    """Return the text of a pending write's document. ``task`` contains the id and the path of the task."""
    kind, stored = _SERIALIZER.dumps_typed(value)
    document = {
        **_names(key),
        "task_id": task[0],
        "task_path": task[1],
        "idx": index,
        "channel": channel,
        "type": kind,
        "blob": base64.b64encode(stored).decode(),
    }
    return _dump(document)


def _names(key: CheckpointKey) -> dict[str, str]:
    return {
        "thread_id": to_storage_safe_id(key.thread),
        "checkpoint_ns": to_storage_safe_str(key.namespace),
        "checkpoint_id": to_storage_safe_id(key.checkpoint),
    }


def _dump(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)


def read_checkpoint(stored: Any) -> CheckpointDocument:
    """Return a checkpoint's document.

    Raises:
        ValueError: if it is not one.
    """
    return msgspec.convert(stored, CheckpointDocument)


def read_tuple(document: CheckpointDocument, writes: Sequence[Any]) -> CheckpointTuple:
    """Return a checkpoint with its pending writes, which must belong to it.

    Raises:
        ValueError: if a document is damaged.
    """
    key = document.key()
    checkpoint: Any = {
        name: part for name, part in document.checkpoint.items() if name not in ("type", "pending_sends")
    }
    parent = from_storage_safe_id(document.parent_checkpoint_id or "")
    return CheckpointTuple(
        config=key_config(key),
        checkpoint=checkpoint,
        metadata=orjson.loads(document.metadata),
        parent_config=key_config(key._replace(checkpoint=parent)) if parent else None,
        pending_writes=[_read_write(write, key) for write in writes],
    )


def _read_write(stored: Any, key: CheckpointKey) -> tuple[str, str, Any]:
    write = msgspec.convert(stored, WriteDocument)
    if write.key() != key:
        raise ValueError("a pending write belongs to another checkpoint")
    value = _SERIALIZER.loads_typed((write.type, base64.b64decode(write.blob, validate=True)))
    return write.task_id, write.channel, value
