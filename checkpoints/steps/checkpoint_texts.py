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
from ragflow_lg.checkpoints.steps.channel_values import LONG_LISTS
from ragflow_lg.checkpoints.steps.channel_versions import is_group, take_versions
from ragflow_lg.checkpoints.steps.saver_operations import thread_of
from ragflow_lg.checkpoints.steps.thread_values import ThreadValues, WrittenBlobs
from ragflow_lg.checkpoints.values.marks import blob_digest
from ragflow_lg.services.sessions import RecentEntries

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
"""The key of the text with all other metadata."""
_CHECKSUM = "__checksum"


KnownTexts: TypeAlias = dict[str, tuple[Any, str]]
"""The last value of each channel in a write, and its text: most steps change only a few channels."""


def pack_checkpoint(
    checkpoint: Checkpoint,
    metadata: Mapping[str, Any],
    groups: Mapping[str, Any],
    thread: str,
    values: ThreadValues,
    blobs: WrittenBlobs,
    known: KnownTexts | None = None,
) -> tuple[Any, Any]:
    """Return the inner saver's checkpoint and metadata. ``known`` is shared by the checkpoints of one write.

    If there are ``groups``, the metadata have all versions, in parts that checkpoints share, and the checkpoint itself
    has only those of channels with a value: the number of channels grows with the canvas.
    """
    texts: dict[str, str | None] = {}
    known = {} if known is None else known
    for channel, value in checkpoint["channel_values"].items():
        if value is None:
            texts[channel] = None
            continue
        same = known.get(channel)
        if same is None or same[0] is not value:
            same = known[channel] = value, values.encode(channel, value, thread, blobs)
        texts[channel] = same[1]
    plain = {key: metadata[key] for key in PLAIN_METADATA if key in metadata}
    more = {key: value for key, value in metadata.items() if key not in PLAIN_METADATA and not is_group(key)}
    own: Any = {**checkpoint, "channel_values": texts}
    if groups:
        versions = checkpoint["channel_versions"]
        own["channel_versions"] = {channel: versions[channel] for channel in texts if channel in versions}
        own["versions_seen"] = {}
    more[_CHECKSUM] = _checksum(own, plain)
    more.update(groups)
    return own, {**plain, _FORMAT: FORMAT, MORE: values.encode("", more, thread, blobs)}


async def unpack_checkpoint(packed: CheckpointTuple, values: ThreadValues, recent: RecentEntries) -> CheckpointTuple:
    """Return a checkpoint with its values.

    Raises:
        CheckpointError: if the store fails or its data is damaged.
    """
    with values.errors.translate_read():
        return await _unpack(packed, values, recent)


async def _unpack(packed: CheckpointTuple, values: ThreadValues, recent: RecentEntries) -> CheckpointTuple:
    thread = thread_of(packed.config)
    _check_format(packed)
    texts = check_fields(packed)
    metadata: dict[str, Any] = dict(packed.metadata or {})
    more = await values.decode("", metadata.pop(MORE, None), thread)
    decoded = {channel: await values.decode(channel, text, thread, recent) for channel, text in texts.items()}
    # Only updates of maps contain the whole of a list.
    in_maps = {name: 0 for name in recent if name not in LONG_LISTS}
    writes = [
        (task, channel, await values.decode(channel, text, thread, in_maps))
        for task, channel, text in packed.pending_writes or ()
    ]
    checkpoint: Any = {**packed.checkpoint, "channel_values": decoded}
    complete: Any = {key: metadata[key] for key in PLAIN_METADATA if key in metadata}
    rest: dict[str, Any] = dict(more or {})
    if rest.pop(_CHECKSUM, "") != _checksum(packed.checkpoint, complete):
        raise ValueError("its checksum is wrong")
    if any(map(is_group, rest)):
        checkpoint["channel_versions"], checkpoint["versions_seen"] = take_versions(rest)
    complete.update(rest)
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
