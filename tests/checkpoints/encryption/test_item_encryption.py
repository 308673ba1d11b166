"""The values of items are encrypted in every store; they are found as before, and the key can be changed."""

import sqlite3
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from pathlib import Path

import pytest

from ragflow_lg.adapters.system_services import SystemClock
from ragflow_lg.base.errors import SessionKeyError
from ragflow_lg.checkpoints.backends import open_item_table
from ragflow_lg.checkpoints.encryption.item_encryption import EncryptedItems
from ragflow_lg.checkpoints.items.item_store import ItemStore
from ragflow_lg.services.encryption import EncryptionKey
from tests.checkpoints.encryption.conftest import NEW, OLD
from tests.stores import fresh_prefix, redis_client, redis_keys

SECRET = "correct-horse"
PLACE = ("memories", "anna")

OpenTable = Callable[..., AbstractAsyncContextManager[EncryptedItems]]


@pytest.fixture(params=["sqlite", "redis"])
def open_table(request: pytest.FixtureRequest, tmp_path: Path) -> OpenTable:
    """Return a function that opens one table with keys."""
    url = request.getfixturevalue("redis_url") if request.param == "redis" else f"sqlite:///{tmp_path}/items.db"
    prefix = fresh_prefix()

    @asynccontextmanager
    async def open_again(*keys: EncryptionKey) -> AsyncGenerator[EncryptedItems]:
        async with open_item_table(url, prefix, keys) as table:
            yield table
        assert await is_plain(url, prefix, tmp_path) is not bool(keys)

    return open_again


async def is_plain(url: str, prefix: str, folder: Path) -> bool:
    """Return whether the secret can be read in the store. Free blocks of a file may contain older values."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(folder / "items.db")) as file:
            return SECRET in str(file.execute("SELECT value FROM items").fetchall())
    client = redis_client(url)
    values = [await client.hgetall(key) for key in await redis_keys(client, f"{prefix}item:*")]  # pyright: ignore[reportGeneralTypeIssues, reportUnknownVariableType] - as redis has it
    await client.aclose()
    return SECRET in str(values)


async def embed(texts: list[str]) -> Sequence[Sequence[float]]:
    return [[1.0, 0.0] if "horse" in text else [0.0, 1.0] for text in texts]


def store_on(table: EncryptedItems) -> ItemStore:
    return ItemStore(table, SystemClock(), embed, fields=["text"], model="m")


async def test_items_are_encrypted_and_found(open_table: OpenTable) -> None:
    async with open_table(OLD) as table:
        store = store_on(table)
        await store.aput(PLACE, "1", {"text": SECRET, "kind": "raw"})
        await store.aput(PLACE, "2", {"text": "tea", "kind": "raw"})
        best = (await store.asearch(("memories",), query="horse", filter={"kind": "raw"}))[0]
        assert (best.key, best.value["text"], round(best.score or 0, 3)) == ("1", SECRET, 1.0)
        assert [item.value["text"] for item in await store.asearch(PLACE)] == ["tea", SECRET]
        item = await store.aget(PLACE, "1")
        assert item is not None
        assert item.value == {"text": SECRET, "kind": "raw"}
    async with open_table(NEW) as table:
        with pytest.raises(SessionKeyError, match="'old', which is not among"):
            await store_on(table).aget(PLACE, "1")


async def test_an_item_is_bound_to_its_place(open_table: OpenTable) -> None:
    async with open_table(OLD) as table:
        await store_on(table).aput(PLACE, "1", {"text": SECRET})
        stored = await table.inner.get(PLACE, "1")
        assert stored is not None
        moved = type(stored)(("memories", "ben"), "1", stored.value, stored.created_at, stored.updated_at)
        await table.inner.put([moved], ())
        with pytest.raises(SessionKeyError, match="cannot be decrypted"):
            await table.get(("memories", "ben"), "1")


async def test_plain_items_stay_readable_until_they_are_written_again(open_table: OpenTable) -> None:
    async with open_table() as table:
        await store_on(table).aput(PLACE, "1", {"text": SECRET})
    async with open_table(OLD) as table:
        (item,) = await store_on(table).asearch(PLACE, query="horse")
        assert item.value == {"text": SECRET}
        await store_on(table).aput(PLACE, "1", item.value)
