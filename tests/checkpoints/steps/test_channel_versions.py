"""Versions of channels: their order, and how checkpoints with many of them are stored."""

from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver

from ragflow_lg.checkpoints import Store
from tests.stores import (
    METADATA,
    OpenStore,
    checkpoint_config,
    memory_saver,
    read_checkpoint,
    sqlite_file,
    store_opener,
)


def test_versions_of_langgraph_are_followed_by_greater_ones() -> None:
    saver = memory_saver()
    theirs: Any = InMemorySaver().get_next_version(f"{12:032}.0.5", None)
    following: str = saver.get_next_version(theirs, None)
    assert theirs < following < saver.get_next_version(following, None)
    assert len({saver.get_next_version("00000012.abcdef", None) for _ in range(100)}) == 100


def _checkpoint(channels: int) -> Any:
    """Return the checkpoint at the end of a chain of so many nodes."""
    names = [f"branch:to:Agent:{number:04}" for number in range(channels)]
    # The channel that triggers a node has a new version when it is emptied.
    versions = {name: f"{min(number, channels):08}.abcdef" for number, name in enumerate(names, 2)}
    seen = {name: {name: f"{number:08}.abcdef"} for number, name in enumerate(names[:-1], 1)}
    return {
        **empty_checkpoint(),
        "channel_values": {"outputs": {"n": channels}, names[-1]: True},
        "channel_versions": {"outputs": versions[names[-1]], **versions},
        "versions_seen": seen,
    }


async def _put_chain(store: Store, channels: int, steps: int) -> list[Any]:
    config = checkpoint_config("t")
    checkpoints = [_checkpoint(number) for number in range(channels - steps + 1, channels + 1)]
    for checkpoint in checkpoints:
        newest = max(checkpoint["channel_versions"].values())
        changed = {name: version for name, version in checkpoint["channel_versions"].items() if version == newest}
        config = await store.saver.aput(config, checkpoint, METADATA, changed)
    return checkpoints


@pytest.mark.parametrize("channels", [6, 40])
async def test_versions_are_read_as_they_were_stored(reopen: OpenStore, channels: int) -> None:
    async with reopen() as store:
        checkpoints = await _put_chain(store, channels, 5)
    async with reopen() as store:
        for checkpoint in checkpoints:
            stored = (await read_checkpoint(store, "t", checkpoint["id"])).checkpoint
            for part in ("channel_values", "channel_versions", "versions_seen"):
                assert stored[part] == checkpoint[part]


async def test_the_size_of_a_checkpoint_does_not_grow_with_the_number_of_channels() -> None:
    sizes: list[float] = []
    for channels in (64, 256):
        async with store_opener("memory://")() as store:
            await _put_chain(store, channels, 30)
            keys = [key async for key in store.saver.list_keys("t")]
            query = "SELECT sum(length(content)) FROM session_blobs"
            texts = "SELECT sum(length(checkpoint) + length(metadata)) FROM session_checkpoints"
            rows = [await sqlite_file(store).read(query), await sqlite_file(store).read(texts)]
            size = sum(row[0][0] for row in rows)
            sizes.append(size / len(keys))
    assert sizes[1] < 2 * sizes[0]
    assert sizes[0] < 4000


async def test_metadata_never_become_versions(reopen: OpenStore) -> None:
    async with reopen() as store:
        checkpoint = _checkpoint(40)
        metadata: Any = {**METADATA, "versions": {"outputs": "9"}, "seen": 1, "checksum": "", "x": 1}
        await store.saver.aput(checkpoint_config("t"), checkpoint, metadata, checkpoint["channel_versions"])
        stored = await read_checkpoint(store, "t")
        assert stored.checkpoint["channel_versions"] == checkpoint["channel_versions"]
        assert stored.metadata == metadata
