"""Checkpoints as LangGraph's Redis checkpointer stores them: the same keys, and the same documents.

Where the server has JSON, LangGraph's class reads them. They are written here because all that belongs to a step is
written by one script, and read as data because LangGraph's reader turns some maps into objects.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import orjson
from langgraph.checkpoint.base import CheckpointTuple
from msgspec import Struct

from ragflow_lg.checkpoints.steps.plain_serializer import PlainSerializer
from ragflow_lg.checkpoints.steps.saver_operations import CheckpointKey, key_config

_SERIALIZER = PlainSerializer(is_json=True)

_NO_NAMESPACE = "__empty__"
_NO_ID = "00000000-0000-0000-0000-000000000000"
"""What stands for empty texts."""

CHECKPOINTS = "checkpoint"


class KeyNames(Struct, frozen=True):
    """The names of keys. Registries have no prefix where LangGraph's class reads them."""

    prefix: str
    registry_prefix: str = ""

    def checkpoint(self, key: CheckpointKey) -> str:
        """Return the key of a checkpoint. What stands before the key of its thread is that of all checkpoints."""
        return f"{self.prefix}{CHECKPOINTS}:{_join(key)}"

    def pointer(self, thread: str, namespace: str) -> str:
        """Return the key that contains the key of the newest checkpoint."""
        return f"{self.prefix}{CHECKPOINTS}_latest:{thread or _NO_ID}:{store_namespace(namespace)}"

    def write(self, key: CheckpointKey, task: str, index: int) -> str:
        """Return the key of a pending write."""
        return f"{self.prefix}{CHECKPOINTS}_write:{_join(key)}:{task}:{index}"

    def registry(self, key: CheckpointKey) -> str:
        """Return the key of the sorted set with the keys of a checkpoint's pending writes."""
        return f"{self.registry_prefix}write_keys_zset:{_join(key)}"


def _join(key: CheckpointKey) -> str:
    return f"{key.thread or _NO_ID}:{store_namespace(key.namespace)}:{key.checkpoint or _NO_ID}"


def store_namespace(namespace: str) -> str:
    """Return a namespace as it is stored."""
    return namespace or _NO_NAMESPACE


def read_namespace(stored: str) -> str:
    """Return a stored namespace."""
    return "" if stored == _NO_NAMESPACE else stored


def _read_id(stored: str) -> str:
    return "" if stored == _NO_ID else stored


class _Document(Struct, frozen=True):
    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str

    def key(self) -> CheckpointKey:
        """Return the key of the checkpoint to which the document belongs."""
        names = _read_id(self.thread_id), read_namespace(self.checkpoint_ns), _read_id(self.checkpoint_id)
        return CheckpointKey(*names)


class CheckpointDocument(_Document, frozen=True):
    """A checkpoint. Its metadata is JSON text."""

    checkpoint: dict[str, Any]
    metadata: str
    parent_checkpoint_id: str | None = None
    run_id: str = ""


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
    versions = {channel: str(version) for channel, version in checkpoint["channel_versions"].items()}
    document: dict[str, Any] = {
        **_names(key),
        "run_id": metadata.get("run_id") or "",
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
    thread, namespace, checkpoint = key
    return {
        "thread_id": thread or _NO_ID,
        "checkpoint_ns": store_namespace(namespace),
        "checkpoint_id": checkpoint or _NO_ID,
    }


def _dump(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)


def read_checkpoint(text: bytes) -> CheckpointDocument:
    """Return a checkpoint's document.

    Raises:
        ValueError: if it is not one.
    """
    return msgspec.convert(orjson.loads(text), CheckpointDocument)


def read_tuple(document: CheckpointDocument, writes: Sequence[bytes]) -> CheckpointTuple:
    """Return a checkpoint with its pending writes, which must belong to it.

    Raises:
        ValueError: if a document is damaged.
    """
    key = document.key()
    checkpoint: Any = {
        name: part for name, part in document.checkpoint.items() if name not in ("type", "pending_sends")
    }
    parent = _read_id(document.parent_checkpoint_id or "")
    return CheckpointTuple(
        config=key_config(key),
        checkpoint=checkpoint,
        metadata=orjson.loads(document.metadata),
        parent_config=key_config(key._replace(checkpoint=parent)) if parent else None,
        pending_writes=[_read_write(write, key) for write in writes],
    )


def _read_write(text: bytes, key: CheckpointKey) -> tuple[str, str, Any]:
    write = msgspec.convert(orjson.loads(text), WriteDocument)
    if write.key() != key:
        raise ValueError("a pending write belongs to another checkpoint")
    value = _SERIALIZER.loads_typed((write.type, base64.b64decode(write.blob, validate=True)))
    return write.task_id, write.channel, value
