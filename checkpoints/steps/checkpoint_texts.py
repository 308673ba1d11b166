"""The form that checkpoints have in the inner saver: everything that a canvas can influence is a text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, cast

import msgspec
import orjson
from langgraph.checkpoint.base import Checkpoint, CheckpointTuple
from msgspec import Struct

from ragflow_lg.base.errors import SessionFormatError
from ragflow_lg.checkpoints.key_ring import require_plain
from ragflow_lg.checkpoints.steps.saver_operations import thread_of
from ragflow_lg.checkpoints.steps.thread_values import ThreadValues, WrittenBlobs
from ragflow_lg.checkpoints.values.marks import blob_digest

Version: TypeAlias = str | int | float


class _Checkpoint(Struct, frozen=True):
    v: int
    id: str
    ts: str
    channel_values: dict[str, str | None]
    """Each value is a text of `ragflow_lg.checkpoints.values.encoding`."""
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


PLAIN_METADATA = ("source", "step", "parents", "run_id")
"""Metadata that the inner saver filters by and must therefore be able to read."""
FORMAT = 1
"""The format of checkpoints. Whatever another version would misread changes it."""
_FORMAT = "format"
MORE = "more"
"""The key of the text with all other metadata, and the versions of all channels."""
_METADATA, _VERSIONS, _SEEN, _CHECKSUM = "metadata", "versions", "seen", "checksum"
"""What that text contains."""


def pack_checkpoint(
    checkpoint: Checkpoint, metadata: Mapping[str, Any], thread: str, values: ThreadValues, blobs: WrittenBlobs
) -> tuple[Any, Any]:
    """Return the inner saver's checkpoint and metadata.

    The metadata have all versions, in parts that checkpoints share, and the checkpoint itself has only those of
    channels with a value: the number of channels grows with the canvas.
    """
    texts = {
        channel: None if value is None else values.encode(channel, value, thread, blobs)
        for channel, value in checkpoint["channel_values"].items()
    }
    plain = {key: metadata[key] for key in PLAIN_METADATA if key in metadata}
    versions = checkpoint["channel_versions"]
    own: Any = {
        **checkpoint,
        "channel_values": texts,
        "channel_versions": {channel: versions[channel] for channel in texts if channel in versions},
        "versions_seen": {},
    }
    more = {
        _METADATA: {key: metadata[key] for key in metadata if key not in PLAIN_METADATA},
        _VERSIONS: versions,
        _SEEN: checkpoint["versions_seen"],
        _CHECKSUM: _checksum(own, plain),
    }
    return own, {**plain, _FORMAT: FORMAT, MORE: values.encode("", more, thread, blobs)}


async def unpack_checkpoint(packed: CheckpointTuple, values: ThreadValues) -> CheckpointTuple:
    """Return a checkpoint with its values.

    Raises:
        CheckpointError: if the store fails or its data is damaged.
    """
    with values.errors.translate_read():
        return await _unpack(packed, values)


async def _unpack(packed: CheckpointTuple, values: ThreadValues) -> CheckpointTuple:
    thread = thread_of(packed.config)
    _check_format(packed)
    texts = check_fields(packed)
    metadata: dict[str, Any] = dict(packed.metadata or {})
    more = await values.decode("", metadata.pop(MORE, None), thread)
    plain = {key: metadata[key] for key in PLAIN_METADATA if key in metadata}
    if more[_CHECKSUM] != _checksum(packed.checkpoint, plain):
        raise ValueError("its checksum is wrong")
    checkpoint: Any = {
        **packed.checkpoint,
        "channel_values": {channel: await values.decode(channel, text, thread) for channel, text in texts.items()},
        "channel_versions": msgspec.convert(more[_VERSIONS], dict[str, Version]),
        "versions_seen": msgspec.convert(more[_SEEN], dict[str, dict[str, Version]]),
    }
    writes = [
        (task, channel, await values.decode(channel, text, thread))
        for task, channel, text in packed.pending_writes or ()
    ]
    complete: Any = {**plain, **more[_METADATA]}
    return packed._replace(checkpoint=checkpoint, metadata=complete, pending_writes=writes)


def _check_format(packed: CheckpointTuple) -> None:
    """Raise SessionFormatError if another version has written a checkpoint."""
    stored = cast("Mapping[str, Any]", packed.metadata or {}).get(_FORMAT)
    if stored != FORMAT:
        raise SessionFormatError(
            f"Another version of ragflow-lg has written this session (format {stored!r:.20}; this version reads format"
            f" {FORMAT}). Use that version, or delete the session."
        )


def texts_of(packed: CheckpointTuple) -> list[str]:
    """Return everything that the inner saver stores as text."""
    metadata: Mapping[str, Any] = packed.metadata or {}
    values = [*packed.checkpoint["channel_values"].values(), metadata.get(MORE)]
    values += [value for _, _, value in packed.pending_writes or ()]
    return [value for value in values if isinstance(value, str)]


def stored_texts(packed: CheckpointTuple) -> list[str]:
    """Return what `texts_of` does.

    Raises:
        SessionKeyError: if a text is encrypted. The search for parts in it would find none.
    """
    texts = texts_of(packed)
    for text in texts:
        require_plain(text)
    return texts


def is_known_metadata(name: str) -> bool:
    """Return whether a checkpoint's metadata can have this name in the inner saver."""
    return name in (*PLAIN_METADATA, _FORMAT, MORE)


def has_metadata(entry: CheckpointTuple, conditions: Mapping[str, Any]) -> bool:
    """Return whether a checkpoint has all of these metadata."""
    metadata = cast("Mapping[str, Any]", entry.metadata or {})
    return all(metadata.get(key) == value for key, value in conditions.items())


def _checksum(checkpoint: Mapping[str, Any], metadata: Mapping[str, Any]) -> str:
    """Return a checksum of everything in a checkpoint that is not stored as a text with its own checksum."""
    versions = _as_texts(checkpoint["channel_versions"])
    seen = {node: _as_texts(of_node) for node, of_node in checkpoint["versions_seen"].items()}
    fields = [
        checkpoint["v"],
        checkpoint["id"],
        versions,
        seen,
        checkpoint.get("updated_channels"),
        sorted(checkpoint["channel_values"]),
        metadata,
    ]
    return blob_digest(orjson.dumps(fields, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS))


def _as_texts(versions: Mapping[str, Any]) -> Mapping[str, str]:
    """Return versions as they are in Redis."""
    if set(map(type, versions.values())) <= {str}:
        return versions
    return {name: str(version) for name, version in versions.items()}
