from typing import Any

from ragflow_lg.checkpoints.steps.leased_reads import MAX_READS, LeasedReads
from ragflow_lg.checkpoints.steps.saver import CanvasSaver
from ragflow_lg.services.sessions import hold_lease, with_lease_token
from tests.stores import OpenStore, checkpoint_config, put_checkpoint

SESSION = "2008f08656b85bc387c067f8d815f4fe"
THREAD = "2008f086-56b8-5bc3-87c0-67f8d815f4fe"
PLACE = checkpoint_config(THREAD)


async def _number(saver: CanvasSaver, config: Any) -> int:
    """Return the number in the newest checkpoint, or 0."""
    stored = await saver.aget_tuple(config)
    return stored.checkpoint["channel_values"]["outputs"]["n"] if stored is not None else 0


async def test_a_holder_reads_what_it_and_others_have_written(reopen: OpenStore) -> None:
    async with reopen() as store:
        async with hold_lease(store.leases, SESSION) as token:
            config = with_lease_token(PLACE, token)
            await put_checkpoint(store.saver, config, {"outputs": {"n": 1}})
            assert await _number(store.saver, config) == 1
        async with hold_lease(store.leases, SESSION):
            pass  # it reads nothing
        await put_checkpoint(store.saver, PLACE, {"outputs": {"n": 2}})
        async with hold_lease(store.leases, SESSION) as token:
            config = with_lease_token(PLACE, token)
            assert await _number(store.saver, config) == 2
            await store.saver.erase([key async for key in store.saver.list_keys(THREAD)], token)
            assert await _number(store.saver, config) == 0
        async with hold_lease(store.leases, SESSION) as token:
            assert await _number(store.saver, with_lease_token(PLACE, token)) == 0


def test_only_the_holder_of_the_lease_takes_the_newest_checkpoint_once() -> None:
    reads = LeasedReads[str | None]()
    reads.remember("t", 1, "read")
    for config in (checkpoint_config("t"), with_lease_token(checkpoint_config("t", "", "id"), 1)):
        assert reads.take(config) == []
    holder = with_lease_token(checkpoint_config("t"), 1)
    assert [reads.take(holder), reads.take(holder)] == [["read"], []]
    reads.remember("t", 1, None)
    assert reads.take(holder) == [None]
    reads.remember("t", 1, "read")
    assert reads.take(with_lease_token(checkpoint_config("t"), 2)) == []
    reads.remember("t", 1, "read")
    reads.forget("t")
    assert reads.take(holder) == []
    for number in range(MAX_READS + 1):
        reads.remember(str(number), 1, "read")
    assert [reads.take(with_lease_token(checkpoint_config(name), 1)) for name in ("0", "1")] == [[], ["read"]]
